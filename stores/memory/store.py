"""Brute force over records kept in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np

from rag.core.errors import CollectionExistsError, CollectionNotFoundError, ConfigurationError
from rag.core.filters import Filter
from rag.core.ports import Selector
from rag.core.records import (
    Capabilities,
    CollectionSpec,
    Feature,
    Hit,
    Quantization,
    Record,
    RecordBatch,
    SearchParams,
    StoreStats,
)
from rag.core.types import Metadata, Scope, Terms, Vector, Vectors
from stores.fusion import leg_limit, reciprocal_rank_fusion
from stores.memory.rows import Rows, rows_of, selects
from stores.memory.scoring import Scores, dense_scores, lexical_scores
from stores.validation import (
    check_batch,
    check_limit,
    check_metadata,
    check_name,
    check_scope,
    check_selector,
    check_spec,
    check_terms,
    check_vector,
    check_vectors,
)


@asynccontextmanager
async def open_store(options: Mapping[str, Any]) -> AsyncIterator[MemoryStore]:
    """An empty store that forgets everything when it closes; it takes no options (``ConfigurationError``)."""
    if options:
        raise ConfigurationError(f"the memory store has no option {', '.join(sorted(options))}")
    yield MemoryStore()


class MemoryStore:
    """A ``VectorStore`` whose every answer is exact. Writes replace a snapshot, so readers never wait."""

    kind = "memory"
    exact_fallbacks = 0
    capabilities = Capabilities(
        features=frozenset({Feature.LEXICAL, Feature.EXACT}),
        reasons={
            Feature.INDEX: "every search is exact",
            Quantization.HALF: "vectors are kept as they came",
            Quantization.INT8: "vectors are kept as they came",
        },
    )

    def __init__(self) -> None:
        self._collections: dict[str, Rows] = {}

    async def create_collection(self, collection: str, spec: CollectionSpec) -> None:
        """See ``VectorStore``."""
        check_spec(spec, self.capabilities)
        existing = self._collections.get(check_name(collection))
        if existing and existing.spec != spec:
            raise CollectionExistsError(f"the collection {collection} has another spec")
        self._collections.setdefault(collection, Rows(spec=spec))

    async def drop_collection(self, collection: str) -> None:
        """See ``VectorStore``."""
        self._collections.pop(check_name(collection), None)

    async def describe_collection(self, collection: str) -> CollectionSpec:
        """See ``VectorStore``."""
        return self._rows(collection).spec

    async def upsert(self, collection: str, scope: Scope, batch: RecordBatch) -> None:
        """See ``VectorStore``."""
        spec = self._rows(collection).spec
        if not len(batch):
            return
        records = await asyncio.to_thread(_checked_records, spec, scope, batch)
        rows = self._rows(collection)
        if rows.spec != spec:
            raise CollectionNotFoundError(f"the collection {collection} was replaced by another")
        self._collections[collection] = rows.with_records(records)

    async def update_metadata(self, collection: str, scope: Scope, document: UUID, metadata: Metadata) -> None:
        """See ``VectorStore``."""
        rows = self._rows(collection)
        check_scope(scope)
        typed = check_metadata(rows.spec, [metadata])[0]
        changed = [r for r in rows.records.values() if r.tenant == scope.tenant and r.document == document]
        self._collections[collection] = rows.with_records([replace(r, metadata=typed) for r in changed])

    async def get(self, collection: str, scope: Scope, ids: Sequence[UUID]) -> list[Record]:
        """See ``VectorStore``."""
        records = self._checked(collection, scope, None).records
        found = (records[scope.tenant, id] for id in ids if (scope.tenant, id) in records)
        return [record for record in found if selects(record, scope, None)]

    async def delete(self, collection: str, scope: Scope, selector: Selector) -> None:
        """See ``VectorStore``."""
        chosen = await self._chosen(collection, scope, selector)
        self._collections[collection] = self._rows(collection).without(chosen)

    async def count(self, collection: str, scope: Scope, selector: Selector | None = None) -> int:
        """See ``VectorStore``."""
        return len(await self._chosen(collection, scope, selector))

    async def scroll(
        self, collection: str, scope: Scope, *, selector: Selector | None = None, batch_size: int = 256
    ) -> AsyncIterator[list[Record]]:
        """See ``VectorStore``; reads the records as they were when it began."""
        check_limit(batch_size)
        chosen = await self._chosen(collection, scope, selector)
        for start in range(0, len(chosen), batch_size):
            yield chosen[start : start + batch_size]

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
        """See ``Searcher``; ``params`` change nothing, every search is exact."""
        del params
        rows = self._checked(collection, scope, filter, limit=limit)
        query = check_vector(rows.spec, vector)
        return await asyncio.to_thread(_dense, rows, scope, query, limit, filter)

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
        queries = check_vectors(self._checked(collection, scope, filter, limit=limit).spec, vectors)
        return [
            await self.search(collection, scope, vector, limit=limit, filter=filter, params=params)
            for vector in queries
        ]

    async def lexical_search(
        self, collection: str, scope: Scope, terms: Terms, *, limit: int, filter: Filter | None = None
    ) -> list[Hit]:
        """See ``Searcher``."""
        rows = self._checked(collection, scope, filter, limit=limit)
        check_terms(terms)
        return await asyncio.to_thread(_lexical, rows, scope, terms, limit, filter)

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
        check_limit(limit)
        depth = leg_limit(limit)
        legs = [
            await self.search(collection, scope, vector, limit=depth, filter=filter, params=params),
            await self.lexical_search(collection, scope, terms, limit=depth, filter=filter),
        ]
        return reciprocal_rank_fusion(legs, limit=limit)

    async def wait_indexed(self, collection: str, *, timeout: float) -> None:
        """See ``VectorStore``; there is no index to wait for."""
        del timeout
        self._rows(collection)

    async def stats(self, collection: str) -> StoreStats:
        """See ``VectorStore``; ``bytes`` are those of vectors and texts."""
        rows = self._rows(collection)
        size = sum(record.vector.nbytes + len(record.text.encode()) for record in rows.records.values())
        return StoreStats(rows=len(rows.records), indexed=len(rows.records), bytes=size)

    async def ping(self) -> None:
        """See ``VectorStore``; always answers."""

    def _rows(self, collection: str) -> Rows:
        try:
            return self._collections[check_name(collection)]
        except KeyError:
            raise CollectionNotFoundError(f"no collection {collection}") from None

    async def _chosen(self, collection: str, scope: Scope, selector: Selector | None) -> list[Record]:
        rows = self._checked(collection, scope, selector)
        return await asyncio.to_thread(_selected, rows, scope, selector)

    def _checked(self, collection: str, scope: Scope, selector: Selector | None, *, limit: int = 1) -> Rows:
        rows = self._rows(collection)
        check_scope(scope)
        check_limit(limit)
        check_selector(selector, rows.spec.filterable)
        return rows


def _checked_records(spec: CollectionSpec, scope: Scope, batch: RecordBatch) -> list[Record]:
    vectors, metadata = check_batch(spec, scope, batch)
    return rows_of(batch, vectors, metadata)


def _selected(rows: Rows, scope: Scope, selector: Selector | None) -> list[Record]:
    return [record for record in rows.ordered if selects(record, scope, selector)]


def _dense(rows: Rows, scope: Scope, vector: Vector, limit: int, filter: Filter | None) -> list[Hit]:
    chosen = [i for i, record in enumerate(rows.ordered) if selects(record, scope, filter)]
    scores = dense_scores(rows.spec.metric, rows.matrix[chosen], vector)
    return _best([rows.ordered[i] for i in chosen], scores, limit)


def _lexical(rows: Rows, scope: Scope, terms: Terms, limit: int, filter: Filter | None) -> list[Hit]:
    chosen = _selected(rows, scope, filter)
    return _best(chosen, lexical_scores([record.terms for record in chosen], terms), limit)


def _best(records: Sequence[Record], scores: Scores, limit: int) -> list[Hit]:
    """The best hits; ``records`` come ordered by id, so a stable sort breaks ties by it. NaN is no hit."""
    order = np.argsort(-scores, kind="stable")[: min(limit, int(np.count_nonzero(~np.isnan(scores))))]
    return [_hit(records[i], float(scores[i])) for i in order]


def _hit(record: Record, score: float) -> Hit:
    return Hit(
        id=record.id,
        score=score,
        document=record.document,
        generation=record.generation,
        index=record.index,
        text=record.text,
        start=record.start,
        end=record.end,
        page=record.page,
        headings=record.headings,
        quality=record.quality,
        metadata=record.metadata,
    )
