"""Garbage goes from the store and then from the list; what the store fails on is asked for later again."""

from __future__ import annotations

from uuid import UUID, uuid4

import numpy as np

from ingest.sweeper import BATCH, Sweeper
from rag.core.catalog import Garbage
from rag.core.errors import StoreError
from rag.core.ports import Selector
from rag.core.records import ByDocument, CollectionSpec, Record, RecordBatch
from rag.core.types import Scope
from stores.memory import MemoryStore
from tests.unit.ingest.fakes import PHYSICAL, SCOPE, TENANT, MemoryCatalog


class MoodyStore(MemoryStore):
    refused: object = None

    async def delete(self, collection: str, scope: Scope, selector: Selector) -> None:
        if isinstance(selector, ByDocument) and selector.document == self.refused:
            raise StoreError
        await super().delete(collection, scope, selector)


def record(document: UUID, generation: int) -> Record:
    return Record(
        id=uuid4(), vector=np.ones(2, dtype=np.float32), terms={1: 1.0}, text="x", start=0, end=1, tenant=TENANT,
        document=document, generation=generation, index=0,
    )  # fmt: skip


def entry(id: int, document: UUID) -> Garbage:
    return Garbage(id=id, tenant=TENANT, physical=PHYSICAL, document=document, generation=1)


async def test_generations_are_removed_and_others_kept() -> None:
    catalog, store, document = MemoryCatalog(dimension=2, model="m"), MoodyStore(), uuid4()
    await store.create_collection(PHYSICAL, CollectionSpec(dimension=2))
    await store.upsert(PHYSICAL, SCOPE, RecordBatch.of([record(document, 1), record(document, 2)]))
    catalog.pending = [Garbage(id=1, tenant=TENANT, physical=PHYSICAL, document=document, generation=1)]

    removed = await Sweeper(catalog, store).sweep()

    assert removed == 1
    assert catalog.pending == []
    assert await store.count(PHYSICAL, SCOPE, ByDocument(document=document)) == 1


async def test_dropped_collections_and_unknown_ones_are_done() -> None:
    catalog, store = MemoryCatalog(dimension=2, model="m"), MoodyStore()
    await store.create_collection(PHYSICAL, CollectionSpec(dimension=2))
    catalog.pending = [
        Garbage(id=1, tenant=TENANT, physical=PHYSICAL, document=None, generation=None),
        Garbage(id=2, tenant=TENANT, physical=PHYSICAL, document=uuid4(), generation=None),
    ]

    await Sweeper(catalog, store).sweep()

    assert catalog.pending == []


async def test_what_the_store_fails_on_is_postponed_and_the_rest_goes() -> None:
    catalog, store, document = MemoryCatalog(dimension=2, model="m"), MoodyStore(), uuid4()
    await store.create_collection(PHYSICAL, CollectionSpec(dimension=2))
    store.refused = document
    refused = [entry(number, document) for number in range(1, BATCH)]
    catalog.pending = [*refused, *(entry(BATCH + number, uuid4()) for number in range(BATCH))]

    removed = await Sweeper(catalog, store).sweep()

    assert removed == BATCH
    assert catalog.postponed == refused
    assert catalog.pending == []


async def test_a_store_that_fails_on_a_whole_batch_is_left_alone() -> None:
    catalog, store, document = MemoryCatalog(dimension=2, model="m"), MoodyStore(), uuid4()
    store.refused = document
    catalog.pending = [entry(number, document) for number in range(3 * BATCH)]

    assert await Sweeper(catalog, store).sweep() == 0
    assert len(catalog.pending) == 2 * BATCH
