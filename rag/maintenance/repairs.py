"""What mends: each step may be repeated, and leaves what is served served."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from uuid import UUID

from rag.blobs import BlobCondition
from rag.catalog.alignment import align_metadata
from rag.catalog.inspection import InspectedDocument
from rag.core.catalog import CollectionView
from rag.core.errors import CollectionNotFoundError
from rag.core.records import ByDocument
from rag.maintenance.findings import Outcome
from rag.maintenance.parts import Parts, limited, service_of

PAGE = 200
"""Documents that are looked at, or queued, at a time."""


async def ingest_again(parts: Parts, document: InspectedDocument) -> Outcome:
    """Queue a document anew; left as it is where its original is lost."""
    if await parts.blobs.condition(service_of(document.tenant), document.blob) is not BlobCondition.WHOLE:
        return Outcome.LEFT
    await parts.catalog.queue_again([document])
    return Outcome.QUEUED


async def restore_records(parts: Parts, document: InspectedDocument) -> Outcome:
    """Queue anew a document whose records are gone; where its original is lost the document says so."""
    outcome = await ingest_again(parts, document)
    if outcome is Outcome.LEFT:
        await parts.catalog.mark_lost(document)
    return outcome


async def ingest_all_again(parts: Parts, tenant: str, ids: Collection[UUID]) -> int:
    """Queue documents anew, those whose original is lost say so; gives the number of the queued."""
    documents = await parts.catalog.inspected_documents(tenant, ids)
    whole = [each for each in documents.values() if each.settled and await _has_original(parts, each)]
    await parts.catalog.queue_again(whole)
    return len(whole)


async def _has_original(parts: Parts, document: InspectedDocument) -> bool:
    if await parts.blobs.condition(service_of(document.tenant), document.blob) is BlobCondition.WHOLE:
        return True
    await parts.catalog.mark_lost(document)
    return False


async def make_collection(parts: Parts, collection: CollectionView) -> bool:
    """Have the physical collection in the store as the catalog says; ``False``: it was there."""
    try:
        found = await limited(parts.store.describe_collection(collection.physical))
    except CollectionNotFoundError:
        found = None
    if found == collection.spec:
        return False
    if found is not None:
        await limited(parts.store.drop_collection(collection.physical))
    await limited(parts.store.create_collection(collection.physical, collection.spec))
    return True


async def restore_collection(parts: Parts, collection: CollectionView) -> Outcome:
    """Make the physical collection and queue its documents anew."""
    await make_collection(parts, collection)
    after, page = None, await _page(parts, collection, None)
    while page:
        after = page[-1].id
        await ingest_all_again(parts, collection.tenant, [each.id for each in page if each.settled])
        page = await _page(parts, collection, after)
    return Outcome.QUEUED


async def _page(parts: Parts, collection: CollectionView, after: UUID | None) -> Sequence[InspectedDocument]:
    return await parts.catalog.inspected_page(collection.id, after=after, limit=PAGE)


async def delete_generation(parts: Parts, collection: CollectionView, document: UUID, generation: int) -> Outcome:
    """Delete orphaned records; after a restore of an old catalog their generation could be given out again."""
    await parts.catalog.reserve_generations(generation)
    if await parts.catalog.expected_generations(collection, [(document, generation)]):
        return Outcome.MENDED
    with suppress(CollectionNotFoundError):
        selector = ByDocument(document=document, generation=generation)
        await limited(parts.store.delete(collection.physical, service_of(collection.tenant), selector))
    return Outcome.MENDED


async def align(parts: Parts, document: InspectedDocument) -> Outcome:
    """Write the catalog's metadata to the store."""
    await limited(align_metadata(parts.catalog, parts.store, tenant=document.tenant, document=document.id))
    return Outcome.MENDED


async def leave(parts: Parts, document: InspectedDocument) -> Outcome:
    """Nothing can be done here."""
    del parts, document
    return Outcome.LEFT


async def set_original_aside(parts: Parts, document: InspectedDocument) -> Outcome:
    """Make room for the right bytes; only an upload brings them."""
    await parts.blobs.quarantine(service_of(document.tenant), document.blob)
    return Outcome.LEFT


async def write_text_again(parts: Parts, document: InspectedDocument, condition: BlobCondition) -> Outcome:
    """Put a damaged text aside and queue the document anew."""
    if document.text is not None and condition is BlobCondition.DAMAGED:
        await parts.blobs.quarantine(service_of(document.tenant), document.text)
    return await ingest_again(parts, document)
