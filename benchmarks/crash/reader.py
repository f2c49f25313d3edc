"""Reads all the while, as a caller and behind the scenes: whatever is served is whole and of one version."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import httpx

from benchmarks.crash.documents import are_of_one_version
from benchmarks.crash.library import COLLECTION
from rag.catalog.inspection import InspectedDocument
from rag.core.catalog import CollectionView
from rag.core.errors import AnchorageError
from rag.core.records import ByDocument
from rag.maintenance import Parts
from rag.maintenance.parts import service_of

_QUERIES = ("harbour crane tide", "港口 潮汐", "version part")
_LIMIT = 100
_PAUSE = 0.05


class Reader:
    """What it saw: ``mixed`` answers and ``halves`` of documents are faults, the rest is how much it read."""

    def __init__(self, client: httpx.AsyncClient, parts: Parts) -> None:
        self.answers = 0
        self.documents = 0
        self.mixed: list[str] = []
        self.halves: list[str] = []
        self._client = client
        self._parts = parts

    async def run(self) -> None:
        """Read until cancelled; what cannot be read because something is down is read later."""
        while True:
            for query in _QUERIES:
                try:
                    await self._search(query)
                    await self._count()
                except (httpx.HTTPError, AnchorageError):
                    pass
                await asyncio.sleep(_PAUSE)

    async def _search(self, query: str) -> None:
        response = await self._client.post(
            f"/v1/collections/{COLLECTION}/search", json={"query": query, "limit": _LIMIT, "mode": "lexical"}
        )
        if not response.is_success:
            return
        texts: Mapping[str, list[str]] = defaultdict(list)
        hits: list[dict[str, Any]] = response.json()["hits"]
        for hit in hits:
            texts[hit["source"]].append(hit["text"])
        self.answers += bool(hits)
        self.mixed += [source for source, pieces in texts.items() if not are_of_one_version(pieces, source)]

    async def _count(self) -> None:
        """Every served document has all its chunks; a suspect is looked at again, between two equal answers."""
        for collection in await self._parts.catalog.inspected_collections(COLLECTION):
            page = await self._parts.catalog.inspected_page(collection.id, after=None, limit=_LIMIT)
            served = [document for document in page if document.generation is not None]
            suspects = [document for document in served if await self._is_half(collection, document)]
            self.documents += len(served)

            async def half(document: InspectedDocument, home: CollectionView = collection) -> str | None:
                return document.source if await self._is_half(home, document) else None

            self.halves += [source for _, source in await self._parts.confirmed(suspects, half)]

    async def _is_half(self, collection: CollectionView, document: InspectedDocument) -> bool:
        if document.generation is None:
            return False
        selector = ByDocument(document=document.id, generation=document.generation)
        scope = service_of(document.tenant)
        return await self._parts.store.count(collection.physical, scope, selector) != document.chunks
