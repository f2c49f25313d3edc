"""Milvus keeps the port's promises: a real server of 2.3, Milvus Lite, and whatever server is named.

Creating a collection costs a server two seconds, most of it the pause of a timer that no setting shortens; so a
server's tests hand on the collections of the usual spec, emptied, to those that come after.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import Phase
from pymilvus import MilvusClient

from benchmarks.milvus_server import running_server, server_package
from rag.core.ports import VectorStore
from rag.core.records import CollectionSpec, Record
from stores.milvus import MilvusStore, open_store
from stores.milvus.schema import stored_spec
from stores.testing import StoreConformance
from stores.testing.engine import Make
from stores.testing.records import spec_of, write

URI = "ANCHORAGE_TEST_MILVUS_URI"
TIMEOUT = 30.0


@pytest.fixture(scope="session")
def own_server() -> Iterator[str]:
    """The address of a server that outlives the session's tests; it and its data are gone afterwards."""
    package = server_package()
    if package is None:
        pytest.skip("needs the wheel of requirements/milvus-server.txt in .venv-milvus")
    with running_server(package) as server:
        yield server.uri


@pytest.fixture(scope="session")
def named_server() -> str:
    """The address of the server that the environment names."""
    if URI not in os.environ:
        pytest.skip(f"needs {URI}")
    return os.environ[URI]


class _Served(StoreConformance):
    examples_scale = 0.25
    phases = tuple(phase for phase in Phase if phase is not Phase.shrink)
    notes = {  # noqa: RUF012  read only
        "runs": "server",
        "consistency": "a write ends with a strong barrier, reads are bounded and never before a write that returned",
        "filters": "up to 30,000 rows that pass are compared by the server; of more the graph is walked",
        "limits": "64 columns: numbers take two, other fields one; a text, a list or metadata has 64 KiB",
        "durability": "a returned write is in the server's log",
    }

    @pytest.fixture
    def uri(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    async def store(self, uri: str) -> AsyncIterator[MilvusStore]:
        async with open_store({"uri": uri, "timeout": TIMEOUT}) as store:
            await store.ping()
            yield store

    @pytest.fixture
    async def second_store(self, uri: str) -> AsyncIterator[MilvusStore]:
        async with open_store({"uri": uri, "timeout": TIMEOUT}) as store:
            yield store

    @pytest.fixture(scope="class")
    @classmethod
    def spare(cls) -> list[str]:
        return []

    @pytest.fixture
    async def make_collection(self, store: VectorStore, uri: str, spare: list[str]) -> AsyncIterator[Make]:
        made: list[str] = []

        async def make(rows: Sequence[Record] = (), spec: CollectionSpec | None = None) -> str:
            usual = spec in (None, spec_of())
            name = spare.pop() if usual and spare else f"c_{uuid4().hex}"
            made.append(name)
            await store.create_collection(name, spec or spec_of())
            await write(store, name, rows)
            return name

        yield make
        for name in made:
            if await asyncio.to_thread(_emptied, uri, name):
                spare.append(name)
            else:
                await store.drop_collection(name)


class TestMilvus23(_Served):
    engine = "Milvus 2.3.5 server"

    @pytest.fixture
    def uri(self, own_server: str) -> str:
        return own_server


class TestMilvusNamed(_Served):
    engine = "Milvus server of the environment"

    @pytest.fixture
    def uri(self, named_server: str) -> str:
        return named_server


class TestMilvusLite(StoreConformance):
    engine = "Milvus Lite 3.2"
    examples_scale = 0.5
    notes = {  # noqa: RUF012  read only
        "runs": "in a host process",
        "consistency": "a write is applied before it returns, and calls are made one by one",
        "filters": "up to 20,000 rows of a segment that pass are compared by the host; of more the graph is walked",
        "limits": "64 columns: numbers take two, other fields one; a text, a list or metadata has 64 KiB",
        "durability": "a returned write survives the kill of the process; a loss of power may cost the last ones",
    }

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
        """A folder whose process outlives the single test; the stores of the tests attach to it."""
        folder = tmp_path_factory.mktemp("lite")
        opened, over = threading.Event(), threading.Event()

        async def keep_open() -> None:
            async with open_store({"path": str(folder)}):
                opened.set()
                await asyncio.to_thread(over.wait)

        keeper = threading.Thread(target=lambda: asyncio.run(keep_open()))
        keeper.start()
        opened.wait(TIMEOUT)
        yield folder
        over.set()
        keeper.join()

    @pytest.fixture
    async def store(self, folder: Path) -> AsyncIterator[MilvusStore]:
        async with open_store({"path": str(folder), "timeout": TIMEOUT}) as store:
            await store.ping()
            yield store

    @pytest.fixture
    async def second_store(self, store: MilvusStore, folder: Path) -> AsyncIterator[MilvusStore]:
        async with open_store({"path": str(folder), "timeout": TIMEOUT}) as second:
            yield second


def _emptied(uri: str, name: str) -> bool:
    """Whether the collection is one of the usual spec; then all of its rows are deleted."""
    client = MilvusClient(uri, timeout=TIMEOUT, dedicated=True)
    try:
        if not client.has_collection(name, timeout=TIMEOUT):
            return False
        if stored_spec(client.describe_collection(name, timeout=TIMEOUT)) != spec_of():
            return False
        client.delete(name, filter='pk >= ""', timeout=TIMEOUT)
        return True
    finally:
        client.close()
