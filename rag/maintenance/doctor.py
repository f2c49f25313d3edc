"""Compares catalog, blobs and store, and mends what differs; beside a live service or without one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from rag.core.catalog import CollectionView
from rag.core.errors import AnchorageError, CollectionNotFoundError
from rag.maintenance.bookkeeping import examine_jobs, examine_statistics
from rag.maintenance.files import examine_blobs, examine_leftovers, examine_unreferenced
from rag.maintenance.findings import Fault, Outcome, Report
from rag.maintenance.indexes import examine_collection, examine_counts, examine_records
from rag.maintenance.parts import Parts
from rag.maintenance.repairs import PAGE

Progress: TypeAlias = Callable[[str], None]


class Doctor:
    """Looks for faults; each is confirmed by a second look after a moment, so that no change under way is one.

    Memory is bounded: documents are read in pages and records in batches, and of each kind of fault only a few
    examples are kept.
    """

    def __init__(self, parts: Parts, *, repair: bool, examples: int = 3, progress: Progress) -> None:
        self._parts = parts
        self._repair = repair
        self._progress = progress
        self._report = Report(most=examples, looked=parts.looked)

    async def examine(self, collection: str | None = None) -> Report:
        """Look at one collection, or at all of them and the data folder; mend each fault as it is met.

        Raises ``CollectionNotFoundError``, and what catalog, blobs and store raise when they cannot be looked at.
        """
        async for fault in self._faults(collection):
            self._report.add(fault, await self._mend(fault) if self._repair else None)
        return self._report

    async def _mend(self, fault: Fault) -> Outcome:
        """One fault that cannot be mended keeps no other from it."""
        try:
            return await fault.mend()
        except AnchorageError as error:
            self._progress(f"{fault.where}: {fault.code} is left: {error.message}")
            return Outcome.LEFT

    async def _faults(self, name: str | None) -> AsyncIterator[Fault]:
        collections = await self._parts.catalog.inspected_collections(name)
        if name is not None and not collections:
            raise CollectionNotFoundError(f"no collection {name!r}")
        for collection in collections:
            async for fault in self._faults_of(collection):
                yield fault
        if name is None:
            self._progress("the data folder")
            async for fault in examine_unreferenced(self._parts):
                yield fault
            async for fault in examine_leftovers(self._parts):
                yield fault

    async def _faults_of(self, collection: CollectionView) -> AsyncIterator[Fault]:
        parts, there = self._parts, True
        parts.looked["collections"] += 1
        self._progress(f"{collection.name}: statistics and jobs")
        for examination in (examine_statistics, examine_jobs, examine_collection):
            async for fault in examination(parts, collection):
                there = there and not fault.code.startswith("collection_")
                yield fault
        try:
            async for fault in self._faults_of_documents(collection, indexed=there):
                yield fault
            async for fault in self._faults_of_records(collection, indexed=there):
                yield fault
        except CollectionNotFoundError:
            # Dropped or deleted meanwhile: a deletion is no fault, and a drop is met next time.
            self._progress(f"{collection.name}: is gone")

    async def _faults_of_documents(self, collection: CollectionView, *, indexed: bool) -> AsyncIterator[Fault]:
        parts, after = self._parts, None
        while page := await parts.catalog.inspected_page(collection.id, after=after, limit=PAGE):
            after = page[-1].id
            parts.looked["documents"] += len(page)
            self._progress(f"{collection.name}: {parts.looked['documents']} documents")
            if indexed:
                async for fault in examine_counts(parts, collection, page):
                    yield fault
            async for fault in examine_blobs(parts, collection, page):
                yield fault

    async def _faults_of_records(self, collection: CollectionView, *, indexed: bool) -> AsyncIterator[Fault]:
        if indexed or self._repair:
            async for fault in examine_records(self._parts, collection):
                self._progress(f"{collection.name}: {self._parts.looked['records']} records")
                yield fault
