from __future__ import annotations

import asyncio

import pytest

from rag.core.errors import CollectionNotFoundError
from rag.core.records import Metric
from stores.memory import MemoryStore
from stores.testing.records import SCOPE, records, spec_of, write


async def test_writes_at_once_lose_nothing() -> None:
    store = MemoryStore()
    await store.create_collection("c", spec_of())

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(write(store, "c", records(10, document=f"document {number}")))

    assert await store.count("c", SCOPE) == 200


async def test_a_write_into_a_collection_that_is_replaced_meanwhile_is_refused() -> None:
    store = MemoryStore()
    await store.create_collection("c", spec_of())
    writing = asyncio.create_task(write(store, "c", records(500)))
    await asyncio.sleep(0)

    await store.drop_collection("c")
    await store.create_collection("c", spec_of(metric=Metric.DOT))

    with pytest.raises(CollectionNotFoundError):
        await writing
    assert await store.count("c", SCOPE) == 0


async def test_a_scroll_reads_the_records_as_they_were_when_it_began() -> None:
    store = MemoryStore()
    await store.create_collection("c", spec_of())
    await write(store, "c", records(6))

    seen = 0
    async for batch in store.scroll("c", SCOPE, batch_size=2):
        seen += len(batch)
        await write(store, "c", records(20))

    assert seen == 6
