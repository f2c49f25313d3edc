"""Options that several commands share; ``--data-dir`` and ``--url`` may stand before or after the command."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rag.settings import Settings

_Command = TypeVar("_Command", bound=Callable[..., Any])
_META = "anchorage."

MODES = ("dense", "lexical", "hybrid")
STATES = ("queued", "running", "published", "failed", "cancelled")
METRICS = ("cosine", "dot", "l2")
FIELD_TYPES = ("string", "integer", "float", "boolean", "datetime", "strings")


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None:
        context.meta[_META + str(parameter.name)] = value


data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    callback=_remember,
    expose_value=False,
    help="Data folder of the service [default: $ANCHORAGE_DATA_DIR, else anchorage-data].",
)
url_option = click.option(
    "--url",
    metavar="URL",
    callback=_remember,
    expose_value=False,
    help="Address of the service [default: that of the service on the data folder].",
)


def service_options(command: _Command) -> _Command:
    """Add ``--url`` and ``--data-dir`` to a command that calls a running service."""
    return url_option(data_dir_option(command))


def json_option(command: _Command) -> _Command:
    """Add ``--json``: one JSON document on standard output and nothing else."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")(command)


def collection_option(command: _Command) -> _Command:
    """Add ``--collection``."""
    return click.option("-c", "--collection", required=True, metavar="NAME", help="The collection.")(command)


def chosen_url() -> str | None:
    """Return the value of ``--url`` as given to this command or before it."""
    url: str | None = click.get_current_context().meta.get(_META + "url")
    return url


def chosen_settings(**overrides: Any) -> Settings:
    """Read the settings, with ``--data-dir`` over the environment. Raises ``ConfigurationError``."""
    from rag.settings import load_settings

    data_dir: Path | None = click.get_current_context().meta.get(_META + "data_dir")
    return load_settings(data_dir=data_dir, **overrides)


def json_object(value: str) -> Mapping[str, Any]:
    """Read a JSON object from the command line; anything else is a usage error that says where the JSON breaks."""
    try:
        parsed = json.loads(value)
    except json.JSONDecodeError as error:
        raise click.BadParameter(f"this is not JSON ({error.msg} at character {error.pos + 1}): {value}") from error
    if not isinstance(parsed, dict):
        raise click.BadParameter(f"this is not a JSON object: {value}")
    return parsed
