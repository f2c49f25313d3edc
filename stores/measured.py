"""A store whose calls are timed: the same port around another one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

from rag.core.filters import Filter
from rag.core.ports import Selector, VectorStore
from rag.core.records import Capabilities, CollectionSpec, Hit, Record, RecordBatch, SearchParams, StoreStats
from rag.core.types import Metadata, Scope, Terms, Vector, Vectors
from rag.telemetry import STORE_EXACT_FALLBACKS, store_timer


class MeasuredStore:
    """Observes each call's time and outcome in ``rag_vector_store_operation_duration_seconds``.

    ``rag_vector_store_exact_fallbacks`` shows the store's own count.
    """

    def __init__(self, inner: VectorStore) -> None:
        self._inner = inner
        STORE_EXACT_FALLBACKS.labels(inner.kind).set_function(lambda: inner.exact_fallbacks)

    @property
    def kind(self) -> str:
        """See ``VectorStore``."""
        return self._inner.kind

    @property
    def capabilities(self) -> Capabilities:
        """See ``VectorStore``."""
        return self._inner.capabilities

    @property
    def exact_fallbacks(self) -> int:
        """See ``VectorStore``."""
        return self._inner.exact_fallbacks

    async def create_collection(self, collection: str, spec: CollectionSpec) -> None:
        """See ``VectorStore``."""
        with store_timer(self.kind, "create_collection"):
            await self._inner.create_collection(collection, spec)

    async def drop_collection(self, collection: str) -> None:
        """See ``VectorStore``."""
        with store_timer(self.kind, "drop_collection"):
            await self._inner.drop_collection(collection)

    async def describe_collection(self, collection: str) -> CollectionSpec:
        """See ``VectorStore``."""
        with store_timer(self.kind, "describe_collection"):
            return await self._inner.describe_collection(collection)

    async def upsert(self, collection: str, scope: Scope, batch: RecordBatch) -> None:
        """See ``VectorStore``."""
        with store_timer(self.kind, "upsert"):
            await self._inner.upsert(collection, scope, batch)

    async def update_metadata(self, collection: str, scope: Scope, document: UUID, metadata: Metadata) -> None:
        """See ``VectorStore``."""
        with store_timer(self.kind, "update_metadata"):
            await self._inner.update_metadata(collection, scope, document, metadata)

    async def get(self, collection: str, scope: Scope, ids: Sequence[UUID]) -> list[Record]:
        """See ``VectorStore``."""
        with store_timer(self.kind, "get"):
            return await self._inner.get(collection, scope, ids)

    async def delete(self, collection: str, scope: Scope, selector: Selector) -> None:
        """See ``VectorStore``."""
        with store_timer(self.kind, "delete"):
            await self._inner.delete(collection, scope, selector)

    async def count(self, collection: str, scope: Scope, selector: Selector | None = None) -> int:
        """See ``VectorStore``."""
        with store_timer(self.kind, "count"):
            return await self._inner.count(collection, scope, selector)

    def scroll(
        self, collection: str, scope: Scope, *, selector: Selector | None = None, batch_size: int = 256
    ) -> AsyncIterator[list[Record]]:
        """See ``VectorStore``; not timed, its pace is its reader's."""
        return self._inner.scroll(collection, scope, selector=selector, batch_size=batch_size)

    async def search(
        self,
        collection: str,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        filter: Filter | None = None,
        params: SearchParams = SearchParams(),  # noqa: B008  frozen
    ) -> list[Hit]:
        """See ``Searcher``."""
        with store_timer(self.kind, "search"):
            return await self._inner.search(collection, scope, vector, limit=limit, filter=filter, params=params)

    async def search_many(
        self,
        collection: str,
        scope: Scope,
        vectors: Vectors,
        *,
        limit: int,
        filter: Filter | None = None,
        params: SearchParams = SearchParams(),  # noqa: B008  frozen
    ) -> list[list[Hit]]:
        """See ``Searcher``."""
        with store_timer(self.kind, "search_many"):
            return await self._inner.search_many(collection, scope, vectors, limit=limit, filter=filter, params=params)

    async def lexical_search(
        self, collection: str, scope: Scope, terms: Terms, *, limit: int, filter: Filter | None = None
    ) -> list[Hit]:
        """See ``Searcher``."""
        with store_timer(self.kind, "lexical_search"):
            return await self._inner.lexical_search(collection, scope, terms, limit=limit, filter=filter)

    async def hybrid_search(
        self,
        collection: str,
        scope: Scope,
        vector: Vector,
        terms: Terms,
        *,
        limit: int,
        filter: Filter | None = None,
        params: SearchParams = SearchParams(),  # noqa: B008  frozen
    ) -> list[Hit]:
        """See ``Searcher``."""
        with store_timer(self.kind, "hybrid_search"):
            return await self._inner.hybrid_search(
                collection, scope, vector, terms, limit=limit, filter=filter, params=params
            )

    async def wait_indexed(self, collection: str, *, timeout: float) -> None:
        """See ``VectorStore``; not timed, it waits by design."""
        await self._inner.wait_indexed(collection, timeout=timeout)

    async def stats(self, collection: str) -> StoreStats:
        """See ``VectorStore``."""
        with store_timer(self.kind, "stats"):
            return await self._inner.stats(collection)

    async def ping(self) -> None:
        """See ``VectorStore``."""
        with store_timer(self.kind, "ping"):
            await self._inner.ping()
