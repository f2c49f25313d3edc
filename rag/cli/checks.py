"""What a configuration needs on this machine, checked without starting anything."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.core.errors import AnchorageError, DataFolderError, MissingExtraError, PortTakenError
from rag.models import MODELS, list_models
from rag.settings import Settings
from rag.supervision.addresses import require_free
from rag.supervision.lock import read_owner
from rag.supervision.models import require_models, vllm_interpreter, wanted_models
from rag.supervision.plans import describe_store
from rag.supervision.vllm import find_accelerator
from rag.wiring.store_identity import check_noted_store
from stores.registry import check_store

MASK = "**********"

_ANY_POSTGRES = "postgresql://"
"""In place of the catalog's, which need not run while options are checked."""

_SECRET = re.compile(r"key|password|secret|token$", re.IGNORECASE)
_USER_INFORMATION = re.compile(r"(?<=://)[^/\s]+(?=@)")
_PARAMETER = re.compile(r"(\w*(?:key|password|secret|token)\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)", re.IGNORECASE)
"""A secret among the parameters of an address, or of a connection string such as ``host=db password=…``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at; a ``fault`` keeps the service from running."""

    name: str
    message: str
    fault: bool = False


def run_checks(settings: Settings) -> list[Check]:
    """Look at everything; each fault is named on its own."""
    looks: Mapping[str, Callable[[Settings], str]] = {
        "data folder": check_data_folder,
        "address": _check_address,
        "catalog": _describe_catalog,
        "store": _check_store,
        "models": _check_models,
        "generation": _describe_generation,
    }
    return [_check(name, look, settings) for name, look in looks.items()]


def _check(name: str, look: Callable[[Settings], str], settings: Settings) -> Check:
    try:
        return Check(name=name, message=look(settings))
    except AnchorageError as error:
        return Check(name=name, message=f"{error.message} ({error.code})", fault=True)


def check_data_folder(settings: Settings) -> str:
    """Write a file into the data folder, or into the nearest folder above that exists. Raises ``DataFolderError``."""
    wanted = settings.data_dir.absolute()
    folder = next(folder for folder in [wanted, *wanted.parents] if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            return f"{wanted} can be written" if folder == wanted else f"{wanted} can be made"
    except OSError as error:
        raise DataFolderError(f"the data folder {wanted} cannot be written: {error.strerror}") from error


def _check_address(settings: Settings) -> str:
    owner = read_owner(settings.data_dir)
    if owner is not None:
        return f"a service runs on this data folder: process {owner.pid}, {owner.url}"
    try:
        require_free(settings.http.host, settings.http.port)
    except PortTakenError as error:
        return f"{settings.http.host}:{settings.http.port} answers to another process now ({error.code})"
    return f"{settings.http.host}:{settings.http.port} is free"


def _describe_catalog(settings: Settings) -> str:
    return "the configured Postgres" if settings.catalog.url else "an embedded Postgres in the data folder"


def _check_store(settings: Settings) -> str:
    """Say which engine it is.

    Raises ``ConfigurationError`` when it lacks its SDK, an option is wrong, or the data is indexed in another one.
    """
    check_store(settings.store.kind, settings.store_options(catalog_url=_ANY_POSTGRES))
    check_noted_store(settings)
    return describe_store(settings)


def _check_models(settings: Settings) -> str:
    """Say of each configured model where it comes from. Raises ``ConfigurationError`` for one that cannot be had."""
    found = require_models(settings)
    known = {status.name: status for status in list_models(models_dir=settings.models_folder)}
    wanted = list(wanted_models(settings, accelerator=find_accelerator()))
    lacking = [name for name in wanted if not (known[name].prepared or known[name].installed)]
    if lacking:
        raise MissingExtraError("; ".join(f"{name} is missing: {MODELS[name].install}" for name in lacking))
    states = [f"{name} {'prepared' if known[name].prepared else 'will be prepared at the start'}" for name in wanted]
    return ", ".join([*states, *(f"{name} in {folder}" for name, folder in found.items())]) or "none is loaded"


def _describe_generation(settings: Settings) -> str:
    generation = settings.generation
    if generation.url:
        return f"answers come from {_masked_address(generation.url)}"
    if python := vllm_interpreter(settings):
        return f"`anchorage up` starts vLLM from {python}"
    why = f"{generation.vllm_python} does not exist" if generation.managed else "as configured"
    return f"no vLLM here ({why}): answers are extractive"


def masked(value: Any, *, name: str = "") -> Any:
    """Return settings with secrets masked: by their name, and names, passwords and keys inside of addresses."""
    if isinstance(value, Mapping):
        return {key: masked(part, name=str(key)) for key, part in value.items()}
    if isinstance(value, list):
        return [masked(part, name=flag or name) for flag, part in zip(_flags(value), value, strict=True)]
    if isinstance(value, str):
        return MASK if value and _SECRET.search(name) else _masked_address(value)
    return str(value) if isinstance(value, Path) else value


def _flags(arguments: Sequence[Any]) -> Iterator[str]:
    """For each argument, the one that it is a value of: ``--api-key`` for each of the keys after it, else nothing."""
    flag = ""
    for argument in arguments:
        named = isinstance(argument, str) and argument.startswith("-")
        yield "" if named else flag
        if named:
            flag = "" if "=" in argument else argument


def _masked_address(text: str) -> str:
    return _PARAMETER.sub(rf"\g<1>{MASK}", _USER_INFORMATION.sub(MASK, text))
