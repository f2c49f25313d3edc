"""The embedded Qdrant's host process: what a crash, a restart and the building of an index leave behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from rag.core.errors import CollectionExistsError, CollectionNotFoundError, StoreError
from rag.core.filters import Compare
from rag.core.records import ByIds, Metric, Quantization, RecordBatch, SearchParams
from rag.core.types import Quality
from stores.qdrant import QdrantStore, open_store
from stores.qdrant.embedded import host_command, ping
from stores.testing.records import SCOPE, clustered, document_of, record, records, spec_of, write

pytest.importorskip("qdrant_edge", reason="needs the package qdrant-edge-py")

THRESHOLD = 1000
DIMENSION = 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "qdrant"


@asynccontextmanager
async def _host(folder: Path, threshold: int = THRESHOLD) -> AsyncIterator[tuple[subprocess.Popen[bytes], QdrantStore]]:
    """A host process of our own, and a store that uses it."""
    socket = folder.parent / "s.sock"
    socket.unlink(missing_ok=True)
    process = subprocess.Popen(host_command(folder, socket, threshold))  # noqa: ASYNC220  killed by its id
    try:
        await _until(lambda: _answers(socket))
        async with open_store({"socket": str(socket), "timeout": 20.0}) as store:
            yield process, store
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 30)


async def _answers(socket: Path) -> bool:
    try:
        await ping(socket)
    except OSError:
        return False
    return True


async def _until(holds: Callable[[], Awaitable[bool]], *, seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110  another process's state
            await asyncio.sleep(0.05)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def _batch(vectors: np.ndarray, first: int = 0) -> RecordBatch:
    count = len(vectors)
    return RecordBatch(
        tenant=SCOPE.tenant,
        ids=[UUID(int=(first + i) << 70 | 5) for i in range(count)],
        vectors=vectors,
        terms=[{1: 1.0}] * count,
        texts=[f"row {first + i}" for i in range(count)],
        starts=[0] * count,
        ends=[0] * count,
        documents=[document_of("all")] * count,
        generations=[1] * count,
        acls=[()] * count,
        indexes=list(range(first, first + count)),
        pages=[None] * count,
        headings=[()] * count,
        qualities=[Quality.FULL] * count,
        metadata=[{"year": (first + i) % 1000} for i in range(count)],
    )


async def _load(store: QdrantStore, name: str, vectors: np.ndarray) -> None:
    for first in range(0, len(vectors), 2000):
        await store.upsert(name, SCOPE, _batch(vectors[first : first + 2000], first))


async def _indexes(store: QdrantStore, name: str) -> list[int]:
    return sorted([one.index async for batch in store.scroll(name, SCOPE, batch_size=2000) for one in batch])


async def test_what_an_upsert_returned_for_survives_the_kill_of_the_host(folder: Path) -> None:
    spec = spec_of()
    async with _host(folder) as (process, store):
        await store.create_collection("c", spec)
        await write(store, "c", records(700))
        await store.delete("c", SCOPE, ByIds(ids=(record(3).id,)))
        await store.update_metadata("c", SCOPE, document_of("manual"), {"year": 7})
        _kill(process)

    async with _host(folder) as (_, store):
        assert await _indexes(store, "c") == [i for i in range(700) if i != 3]
        assert await store.count("c", SCOPE, Compare(operator="eq", key="year", value=7)) == 699
        assert await store.describe_collection("c") == spec
        with pytest.raises(CollectionExistsError):
            await store.create_collection("c", spec_of(metric=Metric.L2))


async def test_a_call_that_a_crash_cut_off_is_made_again_when_the_host_is_back(folder: Path) -> None:
    async with open_store({"path": str(folder), "timeout": 30.0}) as store:
        await store.create_collection("c", spec_of())
        await write(store, "c", records(50))
        (pid,) = _pids_of(folder)

        os.kill(pid, signal.SIGKILL)
        await write(store, "c", records(50, document="other"))

        assert await store.count("c", SCOPE) == 100


async def test_a_host_that_does_not_come_back_is_a_store_error_in_time(folder: Path) -> None:
    impatient = {"socket": str(folder.parent / "s.sock"), "timeout": 0.5}
    async with _host(folder) as (process, _), open_store(impatient) as store:
        await _until(lambda: _pinged(store))
        _kill(process)

        with pytest.raises(StoreError):
            await store.count("c", SCOPE)


async def test_what_is_written_and_deleted_while_an_index_is_built_is_neither_lost_nor_doubled(folder: Path) -> None:
    vectors = clustered(3500, dimension=DIMENSION)
    async with _host(folder) as (_, store):
        await store.create_collection("c", spec_of(dimension=DIMENSION))
        await _load(store, "c", vectors[:3000])
        before = _shards(folder)

        building = asyncio.create_task(store.wait_indexed("c", timeout=120.0))
        written = 3000
        while not building.done():
            fresh = vectors[written % 3500 : written % 3500 + 1]
            await store.upsert("c", SCOPE, _batch(fresh, written))
            await store.delete("c", SCOPE, ByIds(ids=(UUID(int=(written - 3000) << 70 | 5),)))
            assert (await store.search("c", SCOPE, fresh[0], limit=1))[0].index == written
            written += 1
        await building

        assert written > 3001
        assert _shards(folder) != before
        assert await _indexes(store, "c") == list(range(written - 3000, written))
        assert await store.count("c", SCOPE) == 3000
        await store.update_metadata("c", SCOPE, document_of("all"), {"year": 1})
        assert await store.count("c", SCOPE, Compare(operator="eq", key="year", value=1)) == 3000

    async with _host(folder) as (_, store):
        assert await _indexes(store, "c") == list(range(written - 3000, written))


async def test_a_crash_while_an_index_is_built_leaves_the_collection_as_it_was(folder: Path) -> None:
    vectors = clustered(8000, dimension=DIMENSION)
    async with _host(folder) as (process, store):
        await store.create_collection("c", spec_of(dimension=DIMENSION))
        await _load(store, "c", vectors)
        building = asyncio.create_task(store.wait_indexed("c", timeout=60.0))
        await _until(lambda: _has_shards(folder, 2))
        _kill(process)
        building.cancel()
        await asyncio.wait({building})

    async with _host(folder) as (_, store):
        assert await _indexes(store, "c") == list(range(8000))
        await store.wait_indexed("c", timeout=120.0)
        assert len(_shards(folder)) == 1
        assert (await store.stats("c")).indexed == 8000


async def test_an_index_is_built_unasked_when_writing_pauses(folder: Path) -> None:
    async with _host(folder) as (_, store):
        await store.create_collection("c", spec_of(dimension=DIMENSION))
        await _load(store, "c", clustered(1500, dimension=DIMENSION))
        assert (await store.stats("c")).indexed == 0

        await _until(lambda: _is_indexed(store))

        assert await _indexes(store, "c") == list(range(1500))


async def test_a_collection_dropped_while_its_index_is_built_is_gone(folder: Path) -> None:
    async with _host(folder) as (_, store):
        await store.create_collection("c", spec_of(dimension=DIMENSION))
        await _load(store, "c", clustered(6000, dimension=DIMENSION))
        building = asyncio.create_task(store.wait_indexed("c", timeout=60.0))
        await _until(lambda: _has_shards(folder, 2))

        await store.drop_collection("c")

        with pytest.raises(StoreError):
            await building
        with pytest.raises(CollectionNotFoundError):
            await store.count("c", SCOPE)
        assert not (folder / "collections" / "c").exists()


async def test_a_half_made_collection_is_removed_when_the_host_starts(folder: Path) -> None:
    half = folder / "collections" / "half" / "shard-1"
    half.mkdir(parents=True)

    async with _host(folder) as (_, store):
        assert not half.parent.exists()
        with pytest.raises(CollectionNotFoundError):
            await store.describe_collection("half")


@pytest.mark.slow
@pytest.mark.parametrize("quantization", Quantization)
async def test_the_index_recalls_95_of_100_and_filters_fill_the_limit(folder: Path, quantization: Quantization) -> None:
    vectors = clustered(24_000, dimension=128)
    queries = clustered(40, dimension=128, seed=1)
    rare = Compare(operator="lt", key="year", value=10)
    exact = SearchParams(exact=True)
    recalled = 0
    async with _host(folder, 10_000) as (_, store):
        await store.create_collection("c", spec_of(dimension=128, quantization=quantization))
        await _load(store, "c", vectors)
        await store.wait_indexed("c", timeout=200.0)
        assert (await store.stats("c")).indexed == 24_000

        for filter in (None, rare):
            for query in queries:
                expected = await store.search("c", SCOPE, query, limit=10, params=exact, filter=filter)
                found = await store.search("c", SCOPE, query, limit=10, filter=filter)
                assert len(found) == 10
                recalled += sum(hit.score >= expected[-1].score - 1e-5 for hit in found)
        together = await store.search_many("c", SCOPE, queries, limit=10)
        assert [hits[0].id for hits in together] == [
            (await store.search("c", SCOPE, query, limit=10))[0].id for query in queries
        ]

    assert recalled >= 0.95 * 10 * 2 * len(queries)


async def _pinged(store: QdrantStore) -> bool:
    try:
        await store.ping()
    except StoreError:
        return False
    return True


async def _has_shards(folder: Path, count: int) -> bool:
    return len(_shards(folder)) == count


async def _is_indexed(store: QdrantStore) -> bool:
    stats = await store.stats("c")
    return stats.indexed == stats.rows


def _shards(folder: Path) -> set[str]:
    return {path.name for path in (folder / "collections" / "c").glob("shard-*")}


def _pids_of(folder: Path) -> list[int]:
    """The host processes that serve the folder."""
    found = subprocess.run(["pgrep", "-f", f"stores.qdrant.host --folder {folder}/"], capture_output=True, check=True)
    return [int(pid) for pid in found.stdout.split()]
