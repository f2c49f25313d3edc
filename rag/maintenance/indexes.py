"""A physical collection compared with the catalog: its specification, its records, their metadata."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from rag.catalog.inspection import InspectedDocument
from rag.core.catalog import CollectionView
from rag.core.errors import CollectionNotFoundError
from rag.core.filters import dump_metadata
from rag.core.records import ByDocument, CollectionSpec, Record
from rag.core.types import DocumentState, Metadata
from rag.maintenance.findings import Fault, Outcome
from rag.maintenance.parts import Parts, limited, service_of
from rag.maintenance.repairs import align, delete_generation, ingest_again, restore_collection, restore_records

_COUNTS_AT_A_TIME = 8
_BATCH = 256
_MOST_REMEMBERED = 100_000
"""Faults of a collection that are told apart; beyond, those that were met before may be counted again."""
_YOUNG_SECONDS = 10.0
"""A collection without documents may be about to be created in the store so long after its row."""
_LOOKS = 3


async def examine_collection(parts: Parts, collection: CollectionView) -> AsyncIterator[Fault]:
    """Whether the physical collection is there, and as it should be."""
    code = await _wrong_with(parts, collection)
    if code is None:
        return
    await asyncio.sleep(max(parts.moment, _youth(collection)))
    known = await parts.catalog.inspected_collections(collection.name)
    code = await _wrong_with(parts, collection)
    if code is not None and collection.id in {each.id for each in known}:
        yield Fault(
            code=code,
            where=collection.name,
            example=f"{collection.physical} ({collection.documents} documents, {collection.statistics.chunks} chunks)",
            mend=partial(restore_collection, parts, collection),
        )


async def _wrong_with(parts: Parts, collection: CollectionView) -> str | None:
    try:
        found: CollectionSpec = await limited(parts.store.describe_collection(collection.physical))
    except CollectionNotFoundError:
        return "collection_missing"
    return None if found == collection.spec else "collection_differs"


def _youth(collection: CollectionView) -> float:
    if collection.created_at is None or collection.documents:
        return 0.0
    return _YOUNG_SECONDS - (datetime.now(UTC) - collection.created_at).total_seconds()


async def examine_counts(
    parts: Parts, collection: CollectionView, page: Sequence[InspectedDocument]
) -> AsyncIterator[Fault]:
    """Whether each served generation has as many records as it was published with, and is in the statistics."""
    gate = asyncio.Semaphore(_COUNTS_AT_A_TIME)

    async def miscounted(document: InspectedDocument) -> int | None:
        async with gate:
            return await _miscounted(parts, collection, document)

    settled = [each for each in page if each.settled]
    found = await asyncio.gather(*map(miscounted, settled))
    suspects = [document for document, count in zip(settled, found, strict=True) if count is not None]
    for document, count in await parts.confirmed(suspects, miscounted):
        yield Fault(
            code="records_missing" if count < document.chunks else "records_surplus",
            where=collection.name,
            example=f"{document.source}: {count} of {document.chunks}",
            mend=partial(restore_records, parts, document),
        )
    uncounted = [each for each in settled if each.counted != each.chunks]
    for document, _ in await parts.confirmed(uncounted, _is_uncounted):
        yield Fault(
            code="document_uncounted",
            where=collection.name,
            example=document.source,
            mend=partial(ingest_again, parts, document),
        )


async def _miscounted(parts: Parts, collection: CollectionView, document: InspectedDocument) -> int | None:
    """How many records there are where that is the wrong number."""
    if not document.settled:
        return None
    selector = ByDocument(document=document.id, generation=document.generation)
    count = await limited(parts.store.count(collection.physical, service_of(document.tenant), selector))
    return None if count == document.chunks else count


async def _is_uncounted(document: InspectedDocument) -> bool | None:
    return True if document.settled and document.counted != document.chunks else None


async def examine_records(parts: Parts, collection: CollectionView) -> AsyncIterator[Fault]:
    """Every record of the store: whether its document is there, and has this metadata and these readers."""
    met: set[object] = set()
    scope = service_of(collection.tenant)
    async for batch in parts.store.scroll(collection.physical, scope, batch_size=_BATCH):
        parts.looked["records"] += len(batch)
        documents = await parts.catalog.inspected_documents(collection.tenant, {each.document for each in batch})
        for faults in (_orphans(parts, collection, batch, documents), _drift(parts, collection, batch, documents)):
            async for key, fault in faults:
                if key not in met:
                    yield fault
                if len(met) < _MOST_REMEMBERED:
                    met.add(key)
    async for fault in _foreign(parts, collection):
        yield fault


async def _orphans(
    parts: Parts,
    collection: CollectionView,
    batch: Sequence[Record],
    documents: Mapping[UUID, InspectedDocument],
) -> AsyncIterator[tuple[object, Fault]]:
    strange = {
        (each.document, each.generation)
        for each in batch
        if each.document not in documents or each.generation not in _generations(documents[each.document])
    }
    strange -= await parts.catalog.expected_generations(collection, strange)
    if not strange:
        return
    await asyncio.sleep(parts.moment)
    left = {pair: await _count(parts, collection, pair) for pair in strange}
    expected = await parts.catalog.expected_generations(collection, strange)
    for (document, generation), count in left.items():
        if count and (document, generation) not in expected:
            yield (
                (document, generation),
                Fault(
                    code="records_orphaned",
                    where=collection.name,
                    example=f"document {document}, generation {generation}: {count}",
                    mend=partial(delete_generation, parts, collection, document, generation),
                    count=count,
                ),
            )


def _generations(document: InspectedDocument) -> tuple[int | None, int | None]:
    return document.generation, document.claimed


async def _count(parts: Parts, collection: CollectionView, pair: tuple[UUID, int]) -> int:
    selector = ByDocument(document=pair[0], generation=pair[1])
    return await limited(parts.store.count(collection.physical, service_of(collection.tenant), selector))


async def _drift(
    parts: Parts,
    collection: CollectionView,
    batch: Sequence[Record],
    documents: Mapping[UUID, InspectedDocument],
) -> AsyncIterator[tuple[object, Fault]]:
    differing = {
        each.document
        for each in batch
        if each.document in documents and _difference(documents[each.document], [each]) is not None
    }
    suspects = [documents[each] for each in differing - await parts.catalog.being_aligned(differing)]

    async def differs(document: InspectedDocument) -> str | None:
        found = _difference(document, await _sample(parts, collection, document))
        return None if await parts.catalog.being_aligned([document.id]) else found

    for document, code in await parts.confirmed(suspects, differs):
        mend = align if code == "metadata_differs" else ingest_again
        fault = Fault(code=code, where=collection.name, example=document.source, mend=partial(mend, parts, document))
        yield (code, document.id), fault


async def _sample(parts: Parts, collection: CollectionView, document: InspectedDocument) -> list[Record]:
    """All records of the document's served generation."""
    selector = ByDocument(document=document.id, generation=document.generation)
    scrolled = parts.store.scroll(collection.physical, service_of(document.tenant), selector=selector)
    return [record async for batch in scrolled for record in batch]


def _difference(document: InspectedDocument, records: Iterable[Record]) -> str | None:
    """What records of the served generation have that their document has not.

    Only of a published document: one that is being replaced shows the new values, and serves the old ones.
    """
    if document.state is not DocumentState.PUBLISHED:
        return None
    served = [each for each in records if each.generation == document.generation]
    if any(sorted(each.acl) != sorted(document.acl) for each in served):
        return "acl_differs"
    right = _plain(document.metadata)
    return "metadata_differs" if any(_plain(each.metadata) != right for each in served) else None


def _plain(metadata: Metadata | Mapping[str, Any]) -> dict[str, Any]:
    """Metadata to be compared: a field that is null is one that is missing."""
    written = dump_metadata(metadata)
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in written.items() if value is not None
    }


async def _foreign(parts: Parts, collection: CollectionView) -> AsyncIterator[Fault]:
    """Rows that stay when those of the tenant are taken away, however often one counts."""
    strangers = 0
    for look in range(_LOOKS):
        if look:
            await asyncio.sleep(parts.moment)
        before = await limited(parts.store.stats(collection.physical))
        own = await limited(parts.store.count(collection.physical, service_of(collection.tenant)))
        after = await limited(parts.store.stats(collection.physical))
        strangers = min(before.rows, after.rows) - own
        if strangers <= 0:
            return
    example = f"{strangers} in {collection.physical}"
    yield Fault(code="records_foreign", where=collection.name, example=example, mend=_nothing, count=strangers)


async def _nothing() -> Outcome:
    return Outcome.LEFT
