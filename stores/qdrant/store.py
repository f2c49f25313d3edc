"""The store: what each call of the port asks of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rag.core.errors import CollectionExistsError, CollectionNotFoundError
from rag.core.filters import Filter
from rag.core.ports import Selector
from rag.core.records import (
    ByDocument,
    ByIds,
    Capabilities,
    CollectionSpec,
    Hit,
    Metric,
    Quantization,
    Record,
    RecordBatch,
    SearchParams,
    StoreStats,
)
from rag.core.types import Metadata, Scope, Terms, Vector, Vectors
from stores.fusion import leg_limit, reciprocal_rank_fusion
from stores.qdrant.conditions import condition_of
from stores.qdrant.engine import Condition, Effort, Engine, Points, Query, Scored
from stores.qdrant.options import EmbeddedOptions, read_options
from stores.qdrant.points import hits_of, metadata_payload, points_of, query_vector, query_vectors
from stores.qdrant.scrolling import ordered_records
from stores.validation import (
    check_batch,
    check_limit,
    check_metadata,
    check_name,
    check_scope,
    check_selector,
    check_spec,
    check_terms,
)

MAX_TIED = 1024
"""So many hits are looked at to order those by id that tie at the limit."""
_TIED_AT_FIRST = 64
CANDIDATES_PER_EF = 3
"""HNSW keeps this many times ``ef_search`` candidates. On real embeddings (11,426 x 128, cosine, m 16) recall@10
is 0.886 at 100 candidates, 0.945 at 200 and 0.966 at 300."""


@asynccontextmanager
async def open_store(options: Mapping[str, Any]) -> AsyncIterator[QdrantStore]:
    """A store over ``options``, which ``stores.qdrant.options`` lists; raises ``ConfigurationError`` for wrong ones."""
    async with _open_engine(options) as engine:
        yield QdrantStore(engine)


def _open_engine(options: Mapping[str, Any]) -> AbstractAsyncContextManager[Engine]:
    read = read_options(options)
    if isinstance(read, EmbeddedOptions):
        from stores.qdrant.embedded import open_embedded

        return open_embedded(read)
    from stores.qdrant.client import open_client

    return open_client(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The rows of a collection that a call is about; ``condition`` is ``None`` where there can be none."""

    collection: str
    spec: CollectionSpec
    condition: Condition | None


class QdrantStore:
    """A ``VectorStore`` over one of the engines.

    ``exact_fallbacks`` counts the searches for which the vector index found fewer rows than were asked for.
    """

    kind = "qdrant"

    def __init__(self, engine: Engine) -> None:
        self.exact_fallbacks = 0
        self._engine = engine
        self._known: dict[str, CollectionSpec] = {}

    @property
    def capabilities(self) -> Capabilities:
        """See ``VectorStore``; they are the engine's."""
        return self._engine.capabilities

    async def create_collection(self, collection: str, spec: CollectionSpec) -> None:
        """See ``VectorStore``."""
        check_spec(spec, self.capabilities)
        if await self._engine.create(check_name(collection), spec):
            return
        if await self.describe_collection(collection) != spec:
            raise CollectionExistsError(f"the collection {collection} has another spec")

    async def drop_collection(self, collection: str) -> None:
        """See ``VectorStore``."""
        self._known.pop(check_name(collection), None)
        await self._engine.drop(collection)

    async def describe_collection(self, collection: str) -> CollectionSpec:
        """See ``VectorStore``."""
        self._known.pop(check_name(collection), None)
        return await self._spec(collection)

    async def upsert(self, collection: str, scope: Scope, batch: RecordBatch) -> None:
        """See ``VectorStore``."""
        spec = await self._spec(collection)
        if len(batch):
            points = await asyncio.to_thread(_checked_points, spec, scope, batch)
            with self._forgetting(collection):
                await self._engine.upsert(collection, points)

    async def update_metadata(self, collection: str, scope: Scope, document: UUID, metadata: Metadata) -> None:
        """See ``VectorStore``."""
        spec = await self._spec(collection)
        check_scope(scope)
        typed = check_metadata(spec, [metadata])[0]
        condition = condition_of({}, scope.as_service(), ByDocument(document=document))
        with self._forgetting(collection):
            await self._engine.set_payload(collection, condition or {}, metadata_payload(spec, typed))

    async def get(self, collection: str, scope: Scope, ids: Sequence[UUID]) -> list[Record]:
        """See ``VectorStore``."""
        rows = await self._rows(collection, scope, ByIds(ids=tuple(ids)))
        found = {record.id: record async for batch in self._scroll(rows, max(1, len(ids))) for record in batch}
        return [found[id] for id in ids if id in found]

    async def delete(self, collection: str, scope: Scope, selector: Selector) -> None:
        """See ``VectorStore``."""
        rows = await self._rows(collection, scope, selector)
        if rows.condition is not None:
            with self._forgetting(collection):
                await self._engine.delete(collection, rows.condition)

    async def count(self, collection: str, scope: Scope, selector: Selector | None = None) -> int:
        """See ``VectorStore``."""
        rows = await self._rows(collection, scope, selector)
        if rows.condition is None:
            return 0
        with self._forgetting(collection):
            return await self._engine.count(collection, rows.condition)

    async def scroll(
        self, collection: str, scope: Scope, *, selector: Selector | None = None, batch_size: int = 256
    ) -> AsyncIterator[list[Record]]:
        """See ``VectorStore``; each batch is a request of its own."""
        check_limit(batch_size)
        rows = await self._rows(collection, scope, selector)
        async for batch in self._scroll(rows, batch_size):
            yield batch

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
        rows = await self._rows(collection, scope, filter, limit=limit)
        query = Query(vector=query_vector(rows.spec, vector))
        (hits,) = await self._ranked(rows, [query], limit, _effort(rows.spec, limit, params))
        return hits

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
        """See ``Searcher``; one request."""
        rows = await self._rows(collection, scope, filter, limit=limit)
        queries = [Query(vector=vector) for vector in query_vectors(rows.spec, vectors)]
        return await self._ranked(rows, queries, limit, _effort(rows.spec, limit, params))

    async def lexical_search(
        self, collection: str, scope: Scope, terms: Terms, *, limit: int, filter: Filter | None = None
    ) -> list[Hit]:
        """See ``Searcher``."""
        rows = await self._rows(collection, scope, filter, limit=limit)
        if not check_terms(terms):
            return []
        (hits,) = await self._ranked(rows, [Query(terms=terms)], limit, Effort(ef=limit))
        return hits

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
        """See ``Searcher``; both legs come in one request, each ``stores.fusion.leg_limit`` deep."""
        rows = await self._rows(collection, scope, filter, limit=limit)
        depth = leg_limit(limit)
        queries = [Query(vector=query_vector(rows.spec, vector))]
        if check_terms(terms):
            queries.append(Query(terms=terms))
        legs = await self._ranked(rows, queries, depth, _effort(rows.spec, depth, params))
        return reciprocal_rank_fusion(legs, limit=limit)

    async def wait_indexed(self, collection: str, *, timeout: float) -> None:
        """See ``VectorStore``; a collection too small for an index is searched exactly and needs no wait."""
        with self._forgetting(check_name(collection)):
            await self._engine.wait_indexed(collection, timeout=timeout)

    async def stats(self, collection: str) -> StoreStats:
        """See ``VectorStore``; rows of a collection too small for an index count as indexed."""
        with self._forgetting(check_name(collection)):
            return await self._engine.stats(collection)

    async def ping(self) -> None:
        """See ``VectorStore``."""
        await self._engine.ping()

    def _forgetting(self, collection: str) -> _Forgetting:
        return _Forgetting(self._known, collection)

    async def _spec(self, collection: str) -> CollectionSpec:
        if known := self._known.get(check_name(collection)):
            return known
        spec = self._known[collection] = await self._engine.spec(collection)
        return spec

    async def _rows(self, collection: str, scope: Scope, selector: Selector | None, *, limit: int = 1) -> _Rows:
        spec = await self._spec(collection)
        check_scope(scope)
        check_limit(limit)
        check_selector(selector, spec.filterable)
        return _Rows(collection=collection, spec=spec, condition=condition_of(spec.filterable, scope, selector))

    async def _scroll(self, rows: _Rows, batch_size: int) -> AsyncIterator[list[Record]]:
        if rows.condition is None:
            return
        with self._forgetting(rows.collection):
            async for batch in ordered_records(self._engine, rows.collection, rows.spec, rows.condition, batch_size):
                yield batch

    async def _ranked(self, rows: _Rows, queries: Sequence[Query], limit: int, effort: Effort) -> list[list[Hit]]:
        if rows.condition is None or not queries:
            return [[] for _ in queries]
        with self._forgetting(rows.collection):
            found = await self._query(rows, queries, limit + 1, effort)
            return [
                _hits(rows.spec, query, await self._completed(rows, query, points, limit, effort), limit)
                for query, points in zip(queries, found, strict=True)
            ]

    async def _completed(
        self, rows: _Rows, query: Query, points: list[Scored], limit: int, effort: Effort
    ) -> list[Scored]:
        """The points, exactly found where an index found too few, and with all that tie at the limit."""
        if query.vector is not None and len(points) < limit and not effort.exact:
            effort = Effort(ef=effort.ef, exact=True, rescore=effort.rescore)
            (exact,) = await self._query(rows, [query], limit + 1, effort)
            self.exact_fallbacks += len(exact) > len(points)
            points = exact
        asked = limit + 1
        while len(points) == asked and points[-1][0] == points[limit - 1][0] and asked < limit + MAX_TIED:
            asked = limit + (_TIED_AT_FIRST if asked == limit + 1 else MAX_TIED)
            (points,) = await self._query(rows, [query], asked, effort)
        return points

    async def _query(self, rows: _Rows, queries: Sequence[Query], limit: int, effort: Effort) -> list[list[Scored]]:
        return await self._engine.query(
            rows.collection, queries, condition=rows.condition or {}, limit=limit, effort=effort
        )


class _Forgetting:
    """Drops what is known of a collection when the engine no longer has it."""

    def __init__(self, known: dict[str, CollectionSpec], collection: str) -> None:
        self._known = known
        self._collection = collection

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, CollectionNotFoundError):
            self._known.pop(self._collection, None)


def _checked_points(spec: CollectionSpec, scope: Scope, batch: RecordBatch) -> Points:
    vectors, metadata = check_batch(spec, scope, batch)
    return points_of(spec, batch, vectors, metadata)


def _effort(spec: CollectionSpec, limit: int, params: SearchParams) -> Effort:
    return Effort(
        ef=max(params.ef_search * CANDIDATES_PER_EF, limit),
        exact=params.exact,
        rescore=spec.quantization is Quantization.INT8,
    )


def _hits(spec: CollectionSpec, query: Query, points: Sequence[Scored], limit: int) -> list[Hit]:
    """The best of the points; ids order as their texts do."""
    metric = spec.metric if query.vector is not None else None
    scored = [(_score(metric, score), payload) for score, payload in points]
    scored.sort(key=lambda each: (-each[0], each[1]["id"]))
    return hits_of(spec, scored[:limit])


def _score(metric: Metric | None, score: float) -> float:
    if metric is Metric.COSINE:
        return max(-1.0, min(1.0, score))
    return 0.0 - score if metric is Metric.L2 else score
