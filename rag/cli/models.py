"""``anchorage models``: which models are known and prepared, and preparing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from rag.cli.options import chosen_settings, data_dir_option, json_option

if TYPE_CHECKING:
    from rag.models import Precision
    from rag.settings import Settings


@click.group(short_help="List and prepare models.")
@data_dir_option
def models() -> None:
    """List and prepare models: folders made once from weights that installed packages carry.

    \b
    Examples:
      anchorage models list
      anchorage models prepare                           all that the configuration needs
      anchorage models prepare multilingual-e5-small
    """  # noqa: D301


@models.command("list")
@json_option
@data_dir_option
def list_models(*, as_json: bool) -> None:
    """List the known models: what they are for, whether their package is here, whether they are prepared."""
    from rag.cli.output import print_json
    from rag.cli.tables import table
    from rag.models import list_models as known_models

    found = [
        {
            "name": status.name,
            "kind": status.kind.value,
            "languages": list(status.languages),
            "dimension": status.dimension,
            "distribution": status.distribution,
            "installed": status.installed,
            "prepared": status.prepared,
            "folder": str(status.folder) if status.folder else None,
            "bytes": status.bytes,
        }
        for status in known_models(models_dir=chosen_settings().models_folder)
    ]
    if as_json:
        print_json({"models": found})
    else:
        click.echo(table(["model", "kind", "languages", "dimension", "package", "state", "MB"], map_rows(found)))


def map_rows(found: list[dict[str, Any]]) -> list[list[object]]:
    """Return one table row a model."""
    return [
        [
            model["name"],
            model["kind"],
            " ".join("any" if language == "*" else language for language in model["languages"]),
            model["dimension"],
            model["distribution"],
            "prepared" if model["prepared"] else "to be prepared" if model["installed"] else "package missing",
            round(model["bytes"] / 1e6),
        ]
        for model in found
    ]


@models.command("prepare")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
@data_dir_option
def prepare_models(*, names: tuple[str, ...], as_json: bool) -> None:
    """Prepare models by NAME, or all that the configuration needs; those that are prepared are left as they are.

    Nothing is fetched: the weights come from installed packages.
    """
    from rag.cli.output import note, print_json
    from rag.models import resolve

    settings = chosen_settings()
    prepared = [
        {
            "name": name,
            "folder": resolve(name, models_dir=settings.models_folder, precision=precision, report=note),
        }
        for name, precision in _wanted(settings, names).items()
    ]
    if as_json:
        print_json({"models": prepared})
        return
    for model in prepared:
        click.echo(f"{model['name']}: {model['folder']}")


def _wanted(settings: Settings, names: tuple[str, ...]) -> Mapping[str, Precision | None]:
    from rag.supervision.models import wanted_models
    from rag.supervision.vllm import find_accelerator

    configured = wanted_models(settings, accelerator=find_accelerator())
    return {name: configured.get(name) for name in names} if names else configured
