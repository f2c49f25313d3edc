"""Removes from the store what is served no longer: replaced and abandoned generations, deleted collections."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from rag.core.catalog import Garbage
from rag.core.errors import CollectionNotFoundError, StoreError
from rag.core.ports import VectorStore
from rag.core.records import ByDocument
from rag.core.types import Scope

_logger = logging.getLogger(__name__)

BATCH = 100
MAX_BATCHES = 100


class GarbageCatalog(Protocol):
    """The slice of the catalog that knows what is garbage; see ``IngestCatalog``."""

    async def garbage(self, *, limit: int) -> list[Garbage]:
        """What stores may still hold."""
        ...

    async def postpone(self, ids: Sequence[int]) -> None:
        """Ask the store later again."""
        ...

    async def swept(self, ids: Sequence[int]) -> None:
        """The store holds them no longer."""
        ...


class Sweeper:
    """Deletes garbage from a store; every deletion may be repeated."""

    def __init__(self, catalog: GarbageCatalog, store: VectorStore) -> None:
        self._catalog = catalog
        self._store = store

    async def sweep(self) -> int:
        """Remove what there is, at most ``MAX_BATCHES`` batches of it; gives the number of entries removed.

        An entry that the store fails on is asked for later again, so that the others are still removed; where it
        fails on a whole batch, it is left alone until the next time.
        """
        removed = 0
        for _ in range(MAX_BATCHES):
            entries = await self._catalog.garbage(limit=BATCH)
            done = [entry.id for entry in entries if await self._remove(entry)]
            failed = {entry.id for entry in entries}.difference(done)
            if done:
                await self._catalog.swept(done)
            if failed:
                await self._catalog.postpone(sorted(failed))
            removed += len(done)
            if len(entries) < BATCH or not done:
                break
        return removed

    async def _remove(self, entry: Garbage) -> bool:
        try:
            if entry.document is None:
                await self._store.drop_collection(entry.physical)
            else:
                selector = ByDocument(document=entry.document, generation=entry.generation)
                await self._store.delete(entry.physical, Scope(tenant=entry.tenant, groups=None), selector)
        except CollectionNotFoundError:
            return True
        except StoreError:
            _logger.warning("the store could not remove garbage", extra={"action": "sweep_failed", "entry": entry.id})
            return False
        return True
