"""Stores by name, found through the entry-point group ``anchorage.stores``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from rag.core.errors import ConfigurationError, MissingExtraError, UnknownStoreError
from rag.core.ports import StoreFactory, VectorStore

GROUP = "anchorage.stores"


def installed_kinds() -> list[str]:
    """Names of the installed stores, sorted; nothing is imported to find them."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def open_store(kind: str, options: Mapping[str, Any]) -> AbstractAsyncContextManager[VectorStore]:
    """The installed store ``kind``, opened with its own ``options`` by ``async with``.

    Only that store's module is imported. Raises ``UnknownStoreError``, ``MissingExtraError`` when what it
    imports is not installed, ``ConfigurationError`` when two distributions offer the name or an option is wrong.
    """
    return _load(_entry(kind))(options)


def _entry(kind: str) -> EntryPoint:
    offers = {(_distribution(entry), entry.value): entry for entry in entry_points(group=GROUP, name=kind)}
    if not offers:
        raise UnknownStoreError(f"no store {kind!r} is installed; there is {', '.join(installed_kinds()) or 'none'}")
    if len(offers) > 1:
        owners = " and ".join(sorted(owner for owner, _ in offers))
        raise ConfigurationError(f"the store {kind!r} is offered by {owners}: uninstall one of them")
    return next(iter(offers.values()))


def _load(entry: EntryPoint) -> StoreFactory:
    try:
        return cast("StoreFactory", entry.load())
    except ImportError as exc:
        wanted = f"{_distribution(entry)}[{','.join(entry.extras)}]" if entry.extras else f"what {entry.value} imports"
        raise MissingExtraError(f"the store {entry.name!r} needs {wanted}: {exc}") from exc


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value
