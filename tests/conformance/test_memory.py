"""The exact in-memory store keeps the port's promises, and one that forgets the tenant in a single call is caught."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import Phase

from rag.core.ports import Selector
from rag.core.records import ByIds, Hit, Record, RecordBatch
from rag.core.types import Metadata, Scope
from stores.memory import MemoryStore, open_store
from stores.testing import StoreConformance
from stores.testing.records import spec_of
from stores.testing.tenants import READS, TENANTS


class TestMemory(StoreConformance):
    engine = "Memory"
    notes = {  # noqa: RUF012  read only
        "runs": "in process, forgets everything",
        "consistency": "each call sees all writes that returned before it",
        "filters": "before the ranking",
        "limits": "the memory of the process",
        "durability": "none: everything ends with the process",
    }

    @pytest.fixture
    async def store(self) -> AsyncIterator[MemoryStore]:
        async with open_store({}) as store:
            yield store


class LeakyStore:
    """The memory store, but for one call in which the tenant's condition is dropped."""

    def __init__(self, leak: str) -> None:
        self._leak = leak
        self._store = MemoryStore()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _scopes(self, call: str, scope: Scope) -> list[Scope]:
        return [replace(scope, tenant=tenant) for tenant in TENANTS] if call == self._leak else [scope]

    async def upsert(self, collection: str, scope: Scope, batch: RecordBatch) -> None:
        for each in self._scopes("upsert", scope):
            await self._store.delete(collection, each, ByIds(ids=tuple(batch.ids)))
        await self._store.upsert(collection, scope, batch)

    async def update_metadata(self, collection: str, scope: Scope, document: UUID, metadata: Metadata) -> None:
        for each in self._scopes("update_metadata", scope):
            await self._store.update_metadata(collection, each, document, metadata)

    async def delete(self, collection: str, scope: Scope, selector: Selector) -> None:
        for each in self._scopes("delete", scope):
            await self._store.delete(collection, each, selector)

    async def get(self, collection: str, scope: Scope, ids: Sequence[UUID]) -> list[Record]:
        return [one for each in self._scopes("get", scope) for one in await self._store.get(collection, each, ids)]

    async def count(self, collection: str, scope: Scope, selector: Selector | None = None) -> int:
        return sum([await self._store.count(collection, each, selector) for each in self._scopes("count", scope)])

    async def scroll(self, collection: str, scope: Scope, **given: Any) -> AsyncIterator[list[Record]]:
        for each in self._scopes("scroll", scope):
            async for batch in self._store.scroll(collection, each, **given):
                yield batch

    async def search_many(self, collection: str, scope: Scope, vectors: Any, **given: Any) -> list[list[Hit]]:
        scopes = self._scopes("search_many", scope)
        found = [await self._store.search_many(collection, each, vectors, **given) for each in scopes]
        return [[hit for hits in alike for hit in hits] for alike in zip(*found, strict=True)]

    async def search(self, *args: Any, **given: Any) -> list[Hit]:
        return await self._hits("search", *args, **given)

    async def lexical_search(self, *args: Any, **given: Any) -> list[Hit]:
        return await self._hits("lexical_search", *args, **given)

    async def hybrid_search(self, *args: Any, **given: Any) -> list[Hit]:
        return await self._hits("hybrid_search", *args, **given)

    async def _hits(self, call: str, collection: str, scope: Scope, *query: Any, **given: Any) -> list[Hit]:
        search = getattr(self._store, call)
        return [hit for each in self._scopes(call, scope) for hit in await search(collection, each, *query, **given)]


class _Control(StoreConformance):
    examples_scale = 8  # a leak that few histories show must not depend on luck
    phases = (Phase.generate,)


async def _play(store: LeakyStore) -> None:
    await store.create_collection("c", spec_of())

    async def make_collection() -> str:
        return "c"

    test = _Control().test_three_tenants_at_random_never_see_count_change_or_delete_what_is_anothers
    await test(store, make_collection, lambda *_: None)


@pytest.mark.parametrize("leak", [*READS, "upsert", "update_metadata", "delete"])
async def test_a_store_that_forgets_the_tenant_in_one_call_fails_the_test_of_the_tenants(leak: str) -> None:
    with pytest.raises((AssertionError, ExceptionGroup)) as caught:
        await _play(LeakyStore(leak))

    failures = caught.value.exceptions if isinstance(caught.value, ExceptionGroup) else [caught.value]
    assert all(isinstance(failure, AssertionError) for failure in failures)


async def test_a_store_that_forgets_it_nowhere_passes_the_test_of_the_tenants() -> None:
    await _play(LeakyStore(""))
