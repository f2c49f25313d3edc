"""Stores by name, found through the entry-point group ``anchorage.stores``.

An entry names the store's factory, and in brackets the extra of its distribution that brings what it imports.
Where the module beside the factory has a neighbour ``options`` with a function ``read_options``, options can be
checked without opening anything: it takes them and raises ``ConfigurationError``. A function ``engine_packages``
of that neighbour takes them too and names the modules that only these options need.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
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
    entry = _entry(kind)
    return _opened(entry, _load(entry)(options))


@asynccontextmanager
async def _opened(entry: EntryPoint, opening: AbstractAsyncContextManager[VectorStore]) -> AsyncIterator[VectorStore]:
    """The store; an adapter may import what it needs no sooner than it is opened."""
    async with AsyncExitStack() as stack:
        with _missing_extras(entry):
            store = await stack.enter_async_context(opening)
        yield store


def check_store(kind: str, options: Mapping[str, Any]) -> None:
    """Raise what :func:`open_store` and the opening would for this kind and these options; opens nothing."""
    entry = _entry(kind)
    _load(entry)
    beside = f"{entry.module}.options"
    if hasattr(import_module(entry.module), "__path__") and find_spec(beside) is not None:
        neighbour = import_module(beside)
        neighbour.read_options(options)
        with _missing_extras(entry):
            _require_modules(getattr(neighbour, "engine_packages", _no_packages)(options))


def _no_packages(options: Mapping[str, Any]) -> Sequence[str]:
    del options
    return ()


def _require_modules(names: Sequence[str]) -> None:
    for name in names:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}")


def _entry(kind: str) -> EntryPoint:
    offers = {(_distribution(entry), entry.value): entry for entry in entry_points(group=GROUP, name=kind)}
    if not offers:
        raise UnknownStoreError(f"no store {kind!r} is installed; there is {', '.join(installed_kinds()) or 'none'}")
    if len(offers) > 1:
        owners = " and ".join(sorted(owner for owner, _ in offers))
        raise ConfigurationError(f"the store {kind!r} is offered by {owners}: uninstall one of them")
    return next(iter(offers.values()))


def _load(entry: EntryPoint) -> StoreFactory:
    with _missing_extras(entry):
        return cast("StoreFactory", entry.load())


@contextmanager
def _missing_extras(entry: EntryPoint) -> Iterator[None]:
    try:
        yield
    except ImportError as exc:
        raise MissingExtraError(f"the store {entry.name!r} needs {_wanted(entry)}: {exc}") from exc


def _wanted(entry: EntryPoint) -> str:
    if not entry.extras:
        return f"what {entry.value} imports"
    return f"`pip install '{_distribution(entry)}[{','.join(entry.extras)}]'`"


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value
