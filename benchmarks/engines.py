"""The engines that the benchmarks of stores measure: opened by name, each with what it promises its readers."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from benchmarks.milvus_server import running_server, server_package
from rag.catalog.embedded import open_embedded_postgres
from rag.core.errors import ConfigurationError
from rag.core.ports import VectorStore
from rag.core.records import Feature, StoreStats
from stores.registry import open_store

POSTGRES_URL, QDRANT_URL, MILVUS_URI = (
    "ANCHORAGE_TEST_POSTGRES_URL", "ANCHORAGE_TEST_QDRANT_URL", "ANCHORAGE_TEST_MILVUS_URI",
)  # fmt: skip
TIMEOUT = 60.0
"""Seconds a call may take: a measurement shows what is slow instead of failing on it."""
INDEX_TIMEOUT = 1800.0

Address = Callable[[Path], AbstractAsyncContextManager[dict[str, Any]]]
"""Starts in a folder, or finds, what the store needs, and gives the store's options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One way to run a store. ``consistency`` says when others see a write."""

    name: str
    kind: str
    consistency: str
    address: Address
    in_process: bool = False
    """Whether it is a library that runs behind a host process of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An engine's store, open, and the options that it was opened with."""

    engine: Engine
    store: VectorStore
    options: Mapping[str, Any]

    async def settle(self, collection: str) -> StoreStats:
        """Wait for the index, and for what the server's own upkeep does within minutes of a load."""
        await self.store.wait_indexed(collection, timeout=INDEX_TIMEOUT)
        if self.engine.kind == "pgvector":
            async with await psycopg.AsyncConnection.connect(self.options["url"], autocommit=True) as connection:
                for table in (f"r_{collection}", f"t_{collection}"):
                    await connection.execute(f'VACUUM (ANALYZE) anchorage_vectors."{table}"'.encode())
        return await self.store.stats(collection)

    def index_state(self, stats: StoreStats) -> str:
        """What answers a search: the index, or a scan."""
        if Feature.INDEX not in self.store.capabilities.features:
            return "exact"
        return f"HNSW {100 * stats.indexed / max(1, stats.rows):.0f} %"


def engines(names: Sequence[str] = ()) -> list[Engine]:
    """The engines of these names; of no names, all that measure an index. Raises ``ConfigurationError``."""
    if unknown := sorted(set(names) - set(ENGINES)):
        raise ConfigurationError(f"no engine {', '.join(unknown)}; there is {', '.join(ENGINES)}")
    return [ENGINES[name] for name in names] or [each for each in ENGINES.values() if each.name != "memory"]


@asynccontextmanager
async def opened(engine: Engine, folder: Path, **options: Any) -> AsyncIterator[Opened]:
    """The engine's store over a folder of its own; raises ``ConfigurationError`` where it cannot run here."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(engine.address(folder))
        timeout = {} if engine.kind == "memory" else {"timeout": TIMEOUT}
        chosen = {**address, **timeout, **options}
        store = await stack.enter_async_context(open_store(engine.kind, chosen))
        await store.ping()
        yield Opened(engine=engine, store=store, options=chosen)


async def each_opened(
    names: Sequence[str], folder: Path, notes: list[str], **options: Mapping[str, Any]
) -> AsyncGenerator[Opened, None]:
    """The chosen engines, one open at a time; of those that no one named, what cannot run here goes to ``notes``.

    ``options`` are further options of the store, by its kind.
    """
    for engine in engines(names):
        async with AsyncExitStack() as stack:
            own = folder / engine.name
            own.mkdir()
            try:
                found = await stack.enter_async_context(opened(engine, own, **options.get(engine.kind, {})))
            except ConfigurationError as exc:
                if names:
                    raise
                notes.append(f"{engine.name} was not measured: {exc}")
                continue
            yield found


@asynccontextmanager
async def _postgres(folder: Path) -> AsyncIterator[dict[str, Any]]:
    if url := os.environ.get(POSTGRES_URL):
        yield {"url": url}
        return
    async with open_embedded_postgres(folder) as postgres:
        yield {"url": postgres.url}


@asynccontextmanager
async def _qdrant_server(folder: Path) -> AsyncIterator[dict[str, Any]]:
    del folder
    yield {"url": _named(QDRANT_URL)}


@asynccontextmanager
async def _milvus_server(folder: Path) -> AsyncIterator[dict[str, Any]]:
    del folder
    if uri := os.environ.get(MILVUS_URI):
        yield {"uri": uri}
        return
    if (package := server_package()) is None:
        raise ConfigurationError(f"it needs {MILVUS_URI}, or the wheel of requirements/milvus-server.txt")
    with running_server(package) as server:
        yield {"uri": server.uri}


@asynccontextmanager
async def _in_folder(folder: Path) -> AsyncIterator[dict[str, Any]]:
    yield {"path": str(folder)}


@asynccontextmanager
async def _nowhere(folder: Path) -> AsyncIterator[dict[str, Any]]:
    del folder
    yield {}


def _named(variable: str) -> str:
    address = os.environ.get(variable, "")
    if not urlsplit(address).hostname:
        raise ConfigurationError(f"it needs the address of a server in {variable}")
    return address


ENGINES: Mapping[str, Engine] = {
    each.name: each
    for each in (
        Engine(name="pgvector", kind="pgvector", consistency="at commit", address=_postgres),
        Engine(
            name="qdrant-edge", kind="qdrant", consistency="when applied", address=_in_folder, in_process=True,
        ),
        Engine(name="qdrant-server", kind="qdrant", consistency="when applied", address=_qdrant_server),
        Engine(name="milvus-lite", kind="milvus", consistency="when applied", address=_in_folder, in_process=True),
        Engine(
            name="milvus-server", kind="milvus", consistency="strong barrier, bounded reads", address=_milvus_server,
        ),
        Engine(name="memory", kind="memory", consistency="at once", address=_nowhere),
    )
}  # fmt: skip
