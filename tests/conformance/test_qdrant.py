"""Qdrant keeps the port's promises: in the client's local mode, in the embedded engine, and as a server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from stores.qdrant import QdrantStore, open_store
from stores.qdrant.embedded import host_command
from stores.testing import StoreConformance

SERVER = "ANCHORAGE_TEST_QDRANT_URL"
THRESHOLD = 1000
FILTERS = "during the walk of the graph, by indexes of the payload; an exact search where it finds too few"
LIMITS = "text is ordered by its first 1,536 bytes"


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
    notes: ClassVar[Mapping[str, str]] = {
        "runs": "in process, for tests: it scans",
        "consistency": "each call sees all writes that returned before it",
        "filters": "before the ranking",
        "limits": LIMITS,
        "durability": "none in memory; in a folder, a returned write survives the end of the process",
    }

    @pytest.fixture
    async def store(self) -> AsyncIterator[QdrantStore]:
        async with open_store({"location": ":memory:"}) as store:
            yield store


class TestQdrantEmbedded(StoreConformance):
    engine = "Qdrant, embedded"
    notes: ClassVar[Mapping[str, str]] = {
        "runs": "in a host process of its own, started with the first service and shared by all over a socket",
        "consistency": "each write is applied when it returns; an index is built on a copy and swapped in",
        "filters": f"{FILTERS}; few rows that pass are scanned",
        "limits": f"{LIMITS}; 64 MiB a request; one folder has one host process",
        "durability": "a returned write survives the kill of the process; a loss of power may cost the last 5 s",
    }

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
    notes: ClassVar[Mapping[str, str]] = {
        "runs": "a server of its own, over gRPC or HTTP",
        "consistency": "each write waits until it is applied",
        "filters": FILTERS,
        "limits": f"{LIMITS}; 16 MiB and 512 rows a request, larger batches go in several",
        "durability": "the server's: a returned write is in its log",
    }

    @pytest.fixture
    async def store(self) -> AsyncIterator[QdrantStore]:
        if SERVER not in os.environ:
            pytest.skip(f"needs a server: {SERVER} is not set")
        async with open_store({"url": os.environ[SERVER], "timeout": 30.0}) as store:
            yield store
