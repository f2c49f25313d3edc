"""Qdrant keeps the port's promises: in the client's local mode, in the embedded engine, and as a server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stores.qdrant import QdrantStore, open_store
from stores.qdrant.embedded import host_command
from stores.testing import StoreConformance

SERVER = "ANCHORAGE_TEST_QDRANT_URL"
THRESHOLD = 1000


@pytest.fixture(scope="module")
def embedded_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of one host process for all tests."""
    pytest.importorskip("qdrant_edge", reason="needs the package qdrant-edge-py")
    folder = tmp_path_factory.mktemp("qdrant")
    process = subprocess.Popen(host_command(folder, folder / "s.sock", THRESHOLD))
    try:
        yield folder / "s.sock"
    finally:
        process.terminate()
        process.wait(30)


class TestQdrantLocal(StoreConformance):
    engine = "Qdrant, local mode"
    notes = {"runs": "in process, for tests"}  # noqa: RUF012

    @pytest.fixture
    async def store(self) -> AsyncIterator[QdrantStore]:
        async with open_store({"location": ":memory:"}) as store:
            yield store


class TestQdrantEmbedded(StoreConformance):
    engine = "Qdrant, embedded"
    notes = {"runs": "a process of its own", "consistency": "each write is applied when it returns"}  # noqa: RUF012

    @pytest.fixture
    async def store(self, embedded_socket: Path) -> AsyncIterator[QdrantStore]:
        async with open_store({"socket": str(embedded_socket), "timeout": 30.0}) as store:
            yield store

    @pytest.fixture
    async def second_store(self, embedded_socket: Path) -> AsyncIterator[QdrantStore]:
        async with open_store({"socket": str(embedded_socket), "timeout": 30.0}) as second:
            yield second


class TestQdrantServer(StoreConformance):
    engine = "Qdrant, server"
    notes = {"runs": "server", "consistency": "each write waits until it is applied"}  # noqa: RUF012

    @pytest.fixture
    async def store(self) -> AsyncIterator[QdrantStore]:
        if SERVER not in os.environ:
            pytest.skip(f"needs a server: {SERVER} is not set")
        async with open_store({"url": os.environ[SERVER], "timeout": 30.0}) as store:
            yield store
