"""Metadata goes from the catalog to the store until both say the same."""

from __future__ import annotations

from uuid import UUID

import pytest

from rag.catalog.alignment import align_metadata
from rag.core.records import ByDocument
from rag.core.types import Metadata, Scope
from stores.memory import MemoryStore
from stores.testing.records import TENANT, record, spec_of, write

DOCUMENT = record(0).document
SERVICE = Scope(tenant=TENANT, groups=None)


class Told:
    """Says one thing after another of the document."""

    def __init__(self, *answers: tuple[str, Metadata] | None) -> None:
        self.answers = list(answers)

    async def kept_metadata(self, tenant: str, id: UUID) -> tuple[str, Metadata] | None:
        assert (tenant, id) == (TENANT, DOCUMENT)
        return self.answers.pop(0)


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore()
    await store.create_collection("c", spec_of())
    await write(store, "c", [record(0, metadata={"year": 1})])
    return store


async def test_what_was_replaced_meanwhile_is_written_again(store: MemoryStore) -> None:
    told = Told(("c", {"year": 2}), ("c", {"year": 3}), ("c", {"year": 3}))

    await align_metadata(told, store, tenant=TENANT, document=DOCUMENT)

    assert [one.metadata for one in await store.get("c", SERVICE, [record(0).id])] == [{"year": 3}]
    assert told.answers == []


async def test_of_a_document_that_was_deleted_meanwhile_nothing_is_left_in_the_store(store: MemoryStore) -> None:
    await align_metadata(Told(("c", {"year": 2}), None), store, tenant=TENANT, document=DOCUMENT)

    assert await store.count("c", SERVICE, ByDocument(document=DOCUMENT)) == 0


async def test_a_document_whose_collection_was_dropped_meanwhile_is_no_error(store: MemoryStore) -> None:
    class Dropping(Told):
        async def kept_metadata(self, tenant: str, id: UUID) -> tuple[str, Metadata] | None:
            if len(self.answers) == 1:
                await store.drop_collection("c")
            return await super().kept_metadata(tenant, id)

    told = Dropping(("c", {"year": 2}), None)

    await align_metadata(told, store, tenant=TENANT, document=DOCUMENT)

    assert told.answers == []
