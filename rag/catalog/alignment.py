"""Metadata from the catalog, which is the authority, to the store."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol
from uuid import UUID

from rag.core.errors import CollectionNotFoundError, ConflictError
from rag.core.ports import VectorStore
from rag.core.records import ByDocument
from rag.core.types import Metadata, Scope

_WRITES = 20


class MetadataCatalog(Protocol):
    """The slice of the catalog that knows the metadata."""

    async def kept_metadata(self, tenant: str, id: UUID) -> tuple[str, Metadata] | None:
        """The document's physical collection and metadata; ``None`` where it is gone."""
        ...


async def align_metadata(catalog: MetadataCatalog, store: VectorStore, *, tenant: str, document: UUID) -> None:
    """Write to the store until the catalog says what was written: concurrent changes may come in another order.

    A document that was deleted meanwhile is deleted from the store again, as a store that reads records to write
    them back may have brought some of them back. May be repeated at any time. Raises ``ConflictError`` when the
    metadata is replaced over and over, and what catalog and store raise.
    """
    scope, written = Scope(tenant=tenant, groups=None), None
    for _ in range(_WRITES):
        kept = await catalog.kept_metadata(tenant, document)
        if kept is None and written is not None:
            with suppress(CollectionNotFoundError):
                await store.delete(written[0], scope, ByDocument(document=document))
        if kept is None or kept == written:
            return
        physical, metadata = written = kept
        await store.update_metadata(physical, scope, document, metadata)
    raise ConflictError("the metadata is being replaced over and over; try again")
