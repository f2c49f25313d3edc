"""The milvus store against real engines that die, come back, and are shared by processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from benchmarks.milvus_server import MilvusServer, running_server, server_package
from rag.core.errors import UpstreamError
from rag.core.filters import Compare
from rag.core.records import Feature, Metric, RecordBatch
from stores.milvus import MilvusStore, open_store
from stores.testing.records import SCOPE, clustered, everything, oracle, record, records, same, spec_of, vector, write

TIMEOUT = 10.0
READER = """
import asyncio, json, sys
from rag.core.types import Scope
from stores.milvus import open_store
from stores.testing.records import SCOPE, vector

async def main(options, name):
    async with open_store(options) as store:
        await store.ping()
        print("ready", flush=True)
        for line in sys.stdin:
            hits = await store.search(name, SCOPE, vector(1), limit=500)
            print(len(hits), await store.count(name, SCOPE), flush=True)

asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2]))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[MilvusServer]:
    package = server_package()
    if package is None:
        pytest.skip("needs the wheel of requirements/milvus-server.txt in .venv-milvus")
    with running_server(package) as server:
        yield server


@pytest.fixture
async def store(server: MilvusServer) -> AsyncIterator[MilvusStore]:
    async with open_store({"uri": server.uri, "timeout": TIMEOUT}) as store:
        await store.ping()
        yield store


@pytest.fixture
async def name(store: MilvusStore) -> AsyncIterator[str]:
    name = f"c_{uuid4().hex}"
    await store.create_collection(name, spec_of())
    yield name
    await eventually(lambda: store.drop_collection(name))


async def test_another_process_reads_at_once_what_this_one_wrote(
    server: MilvusServer, store: MilvusStore, name: str
) -> None:
    seen = []

    with reader(f'{{"uri": "{server.uri}"}}', name) as ask:
        for number in range(20):
            await write(store, name, records(20, document=f"document {number}"))
            seen.append(await asyncio.to_thread(ask))

    assert seen == [f"{20 * number} {20 * number}" for number in range(1, 21)]


@pytest.mark.slow
async def test_a_server_that_dies_mid_batch_is_one_error_and_a_retry_heals(
    server: MilvusServer, store: MilvusStore, name: str
) -> None:
    await write(store, name, records(50, text="old"))
    batch = RecordBatch.of(records(6000, text="new"))

    writing = asyncio.create_task(store.upsert(name, SCOPE, batch))
    await asyncio.sleep(0.3)
    assert not writing.done()
    server.kill()
    with pytest.raises(UpstreamError) as caught:
        await writing
    server.start()
    await eventually(lambda: store.upsert(name, SCOPE, batch))

    assert caught.value.retryable
    assert await eventually(lambda: store.count(name, SCOPE)) == 6000
    assert {one.text for one in await eventually(lambda: everything(store, name))} == {"new"}


async def test_a_server_that_comes_up_later_is_used_then(server: MilvusServer) -> None:
    async with open_store({"uri": "http://127.0.0.1:9", "timeout": 0.5}) as absent:
        with pytest.raises(UpstreamError):
            await absent.ping()
        with pytest.raises(UpstreamError):
            await absent.count("c", SCOPE)
        assert absent.capabilities.reasons

    async with open_store({"uri": server.uri, "timeout": TIMEOUT}) as late:
        await late.ping()


async def test_a_large_batch_leaves_the_event_loop_to_others(store: MilvusStore, name: str) -> None:
    gaps = []

    async def beat() -> None:
        last = monotonic()
        while True:
            await asyncio.sleep(0.005)
            gaps.append(monotonic() - last)
            last = monotonic()

    beating = asyncio.create_task(beat())
    await store.upsert(name, SCOPE, RecordBatch.of(records(3000)))
    beating.cancel()

    assert len(gaps) > 20


async def test_a_server_that_is_there_is_known_before_anything_is_asked_of_it(server: MilvusServer) -> None:
    async with open_store({"uri": server.uri, "timeout": TIMEOUT}) as fresh, asyncio.timeout(TIMEOUT):
        while "2.3" not in fresh.capabilities.reasons.get(Feature.LEXICAL, ""):  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(0.01)


async def test_nearest_rows_are_found_in_memory_and_sealed_though_a_filter_lets_only_a_part_pass(
    store: MilvusStore,
) -> None:
    vectors = clustered(6000, dimension=8) * np.random.default_rng(5).uniform(0.2, 3.0, (6000, 1)).astype(np.float32)
    rows = [record(i, vector=vectors[i], metadata={"year": i % 10}) for i in range(6000)]
    spec = spec_of(metric=Metric.DOT)
    exact = await oracle(rows, spec)
    name = f"c_{uuid4().hex}"
    await store.create_collection(name, spec)
    await write(store, name, rows)

    async def recall(below: int) -> float:
        passing = Compare(operator="lt", key="year", value=below)
        found = 0
        for query in vectors[:40]:
            wanted = await exact.search("oracle", SCOPE, query, limit=10, filter=passing)
            hits = await store.search(name, SCOPE, query, limit=10, filter=passing)
            found += len({hit.id for hit in hits} & {hit.id for hit in wanted})
        return found / 400

    in_memory = [await recall(below) for below in (5, 1)]
    await store.wait_indexed(name, timeout=60.0)
    sealed = [await recall(below) for below in (5, 1)]
    await store.drop_collection(name)

    assert min(in_memory) >= 0.95
    assert sealed == [1.0, 1.0]


async def test_no_row_vanishes_when_the_collection_is_sealed(store: MilvusStore, name: str) -> None:
    await write(store, name, records(1200))

    await store.wait_indexed(name, timeout=60.0)

    for _ in range(20):
        assert len(await store.search(name, SCOPE, vector(1), limit=1200)) == 1200
        await asyncio.sleep(0.1)
    assert all(same(one, record(one.index)) for one in await store.get(name, SCOPE, [r.id for r in records(30)]))


class TestLite:
    async def test_processes_share_a_folder_and_read_each_others_writes(self, tmp_path: Path) -> None:
        async with open_store({"path": str(tmp_path)}) as store:
            await store.create_collection("c", spec_of())

            with reader(f'{{"path": "{tmp_path}"}}', "c") as ask:
                await write(store, "c", records(30))
                seen = await asyncio.to_thread(ask)

        assert seen == "30 30"

    async def test_what_was_acknowledged_outlives_a_killed_process(self, tmp_path: Path) -> None:
        async with open_store({"path": str(tmp_path), "timeout": TIMEOUT}) as store:
            await store.create_collection("c", spec_of())
            await write(store, "c", records(40))
            kill(tmp_path)

            found = await eventually(lambda: everything(store, "c"))
            await write(store, "c", records(60))

            assert len(found) == 40
            assert len(await store.lexical_search("c", SCOPE, {7: 1.0}, limit=99)) == 60

    async def test_nothing_is_lost_when_the_last_one_leaves(self, tmp_path: Path) -> None:
        row = record(0, metadata={"year": 5})
        async with open_store({"path": str(tmp_path)}) as store:
            await store.create_collection("c", spec_of())
            await write(store, "c", [row])

        async with open_store({"path": str(tmp_path)}) as store:
            (found,) = await everything(store, "c")
            assert same(found, row)
            assert await store.count("c", SCOPE, Compare(operator="eq", key="year", value=5)) == 1
            assert await store.describe_collection("c") == spec_of()

    async def test_no_row_vanishes_when_the_memory_is_flushed(self, tmp_path: Path) -> None:
        vectors = clustered(500, dimension=8)
        rows = [record(i, vector=vectors[i]) for i in range(500)]
        async with open_store({"path": str(tmp_path)}) as store:
            await store.create_collection("c", spec_of())
            await write(store, "c", rows)
            await store.wait_indexed("c", timeout=30.0)

            for _ in range(15):
                assert len(await store.search("c", SCOPE, vectors[0], limit=500)) == 500
                await asyncio.sleep(0.1)
            hits = await store.search("c", SCOPE, vectors[7], limit=1)
            assert np.isclose(hits[0].score, 1.0)


class reader:  # noqa: N801  reads as a verb in a with statement
    """A process that searches and counts whenever it is asked."""

    def __init__(self, options: str, name: str) -> None:
        self._command = [sys.executable, "-c", READER, options, name]

    def __enter__(self) -> Callable[[], str]:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": "."},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self._ask

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def _ask(self) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


async def eventually(call: Callable[[], Any]) -> Any:
    """The result of the call once the engine is back."""
    deadline = monotonic() + 150.0
    while True:
        try:
            return await call()
        except UpstreamError:
            if monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


def kill(folder: Path) -> None:
    """End the process that keeps the folder, as a crash does."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"stores.milvus.lite_host" in command and str(folder / "lite").encode() in command:
            os.kill(int(entry.parent.name), signal.SIGKILL)
