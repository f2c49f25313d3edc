"""Makes indexes again from catalog and blobs, while what is there is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from rag.catalog.inspection import StoreNote
from rag.core.catalog import CollectionView
from rag.core.types import DocumentState
from rag.maintenance.parts import Parts
from rag.maintenance.repairs import PAGE, ingest_all_again, make_collection

_POLL_SECONDS = 0.5
_ENDED = (DocumentState.PUBLISHED, DocumentState.FAILED, DocumentState.CANCELLED)
_AGAIN = (DocumentState.PUBLISHED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildProgress:
    """Where a rebuild stands: documents still to be ingested, those that could not be, workers that run."""

    left: int
    failed: int
    workers: int


class Rebuild:
    """A rebuild of some collections; begun again after whatever ended it, it goes on where it was."""

    def __init__(self, parts: Parts, collections: Sequence[CollectionView], note: StoreNote) -> None:
        self._parts = parts
        self._collections = collections
        self._note = note

    async def begin(self) -> tuple[int, int]:
        """Create the physical collections that are missing, and queue every served document anew.

        Gives the number of collections that were created and of documents that were queued. Raises what catalog,
        blobs and store raise; may be repeated.
        """
        await self._parts.catalog.begin_rebuild(self._collections, self._note)
        made = [await make_collection(self._parts, each) for each in self._collections]
        queued = [await self._queue(each, _ENDED) for each in self._collections]
        return sum(made), sum(queued)

    async def _queue(self, collection: CollectionView, states: Sequence[DocumentState]) -> int:
        catalog, after, queued = self._parts.catalog, None, 0
        while ids := await catalog.old_documents(collection.id, states=states, after=after, limit=PAGE):
            after = ids[-1]
            queued += await ingest_all_again(self._parts, collection.tenant, ids)
        return queued

    async def progress(self) -> RebuildProgress:
        """Where it stands now."""
        found = [await self._parts.catalog.rebuild_progress(each.id) for each in self._collections]
        workers = await self._parts.catalog.living_workers()
        return RebuildProgress(
            left=sum(left for left, _ in found), failed=sum(bad for _, bad in found), workers=workers
        )

    async def watch(self) -> AsyncIterator[RebuildProgress]:
        """Yield where it stands until nothing is left to be ingested, then forget the marks; or until no worker runs.

        A document that an attempt from before the rebuild publishes meanwhile is queued anew.
        """
        while (now := await self.progress()).left and now.workers:
            yield now
            for each in self._collections:
                await self._queue(each, _AGAIN)
            await asyncio.sleep(_POLL_SECONDS)
        if not now.left:
            for each in self._collections:
                await self._parts.catalog.end_rebuild(each.id)
        yield now
