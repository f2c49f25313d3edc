"""What to ask the store: the query's vector and terms, and where the collection lives."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from rag.core.catalog import CollectionView
from rag.core.errors import CatalogError, EmbeddingError, FilterError, ModelMismatchError
from rag.core.filters import parse_filter
from rag.core.ports import Corpus, Embedder, VectorStore
from rag.core.records import Feature
from rag.core.types import Mode, Terms, Vector
from rag.deadline import Deadline
from rag.lexical import TermCounts, count_terms, query_weights
from rag.query.retrieval import Plan
from rag.query.trace import STAGE_FAILURES, Trace, bounded
from rag.query.types import QueryOptions, SearchRequest
from rag.telemetry import stage_timer

_EMBED_SHARE = 0.4
_CATALOG_SHARE = 0.4
_KNOWN_VIEWS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Plans searches; remembers where collections live, which saves a purely dense search one round trip."""

    corpus: Corpus
    store: VectorStore
    embedder: Embedder
    options: QueryOptions
    reranks: bool
    _known: OrderedDict[tuple[str, str], CollectionView] = field(default_factory=OrderedDict)

    async def plan(
        self, request: SearchRequest, query: str, deadline: Deadline, trace: Trace, *, fresh: bool = False
    ) -> tuple[Plan, CollectionView]:
        """The plan and the collection that it is for.

        A dense search needs nothing of the collection that changes, so its plan takes what was last known unless
        ``fresh``; the plan then says ``assumed``. Raises what a search raises.
        """
        mode = self._mode(request.mode, trace)
        async with self._embedding(query, mode, deadline, trace) as embedding:
            known = self._known.get(_key(request)) if mode is Mode.DENSE and not fresh else None
            counts = count_terms(query) if mode is not Mode.DENSE else TermCounts(counts={}, length=0)
            plan, view = await self._planned(request, mode, deadline, trace, counts=counts, known=known)
            if embedding is None:
                return plan, view
            try:
                return replace(plan, vector=await embedding), view
            except STAGE_FAILURES as error:
                if Feature.LEXICAL not in self.store.capabilities.features:
                    raise
                trace.degrade("embedding", error)
        if mode is not Mode.DENSE:
            return replace(plan, mode=Mode.LEXICAL), view
        return await self._planned(request, Mode.LEXICAL, deadline, trace, counts=count_terms(query))

    async def _planned(
        self,
        request: SearchRequest,
        mode: Mode,
        deadline: Deadline,
        trace: Trace,
        *,
        counts: TermCounts,
        known: CollectionView | None = None,
    ) -> tuple[Plan, CollectionView]:
        """A plan without its vector, by the ``known`` view where the request fits that."""
        if known is not None:
            try:
                return replace(self._plan_for(request, mode, counts, known), assumed=True), known
            except (FilterError, ModelMismatchError):
                # Perhaps it is another collection of that name by now, with other fields or another model.
                self._known.pop(_key(request), None)
        view = await self._collection(request, counts, deadline, trace)
        return self._plan_for(request, mode, counts, view), view

    def _plan_for(self, request: SearchRequest, mode: Mode, counts: TermCounts, view: CollectionView) -> Plan:
        self._check_model(view)
        return Plan(
            scope=request.scope,
            physical=view.physical,
            mode=mode,
            vector=None,
            terms=_weights(counts, view),
            filter=parse_filter(request.filter, view.spec.filterable) if request.filter is not None else None,
            limit=request.limit,
            reranked=request.rerank and self.reranks,
        )

    def _mode(self, mode: Mode, trace: Trace) -> Mode:
        offered = self.store.capabilities
        if mode is Mode.DENSE or Feature.LEXICAL in offered.features:
            return mode
        trace.skip("lexical", offered.reasons.get(Feature.LEXICAL, "the store does not offer it"))
        return Mode.DENSE

    async def _collection(
        self, request: SearchRequest, counts: TermCounts, deadline: Deadline, trace: Trace
    ) -> CollectionView:
        self._known.pop(_key(request), None)
        deadline.check("the catalog")
        with stage_timer("catalog", trace.timings):
            view = await bounded(
                self.corpus.collection(request.scope, request.collection, terms=tuple(counts.counts)),
                deadline=deadline,
                late=CatalogError,
                stage="the catalog",
                share=_CATALOG_SHARE,
            )
        self._known[_key(request)] = view
        if len(self._known) > _KNOWN_VIEWS:
            self._known.popitem(last=False)
        return view

    def _check_model(self, view: CollectionView) -> None:
        if view.embedding_model != self.embedder.model:
            raise ModelMismatchError(
                f"collection {view.name!r} was made with the embedding model {view.embedding_model!r}, "
                f"but the service is configured with {self.embedder.model!r}"
            )

    @asynccontextmanager
    async def _embedding(
        self, query: str, mode: Mode, deadline: Deadline, trace: Trace
    ) -> AsyncIterator[asyncio.Task[Vector] | None]:
        """The query's vector while the catalog is being read; a task that ends with the block."""
        if mode is Mode.LEXICAL:
            yield None
            return
        task = asyncio.create_task(self._embed(query, deadline, trace))
        try:
            yield task
        finally:
            if task.cancel():
                await asyncio.wait([task])
            if not task.cancelled():
                task.exception()

    async def _embed(self, query: str, deadline: Deadline, trace: Trace) -> Vector:
        with stage_timer("embed", trace.timings):
            vectors = await bounded(
                self.embedder.embed([query], kind="query"),
                deadline=deadline,
                late=EmbeddingError,
                stage="the embedder",
                at_most=self.options.embedding_timeout,
                share=_EMBED_SHARE,
            )
        if vectors.shape != (1, self.embedder.dimension) or not np.isfinite(vectors).all():
            raise EmbeddingError("the embedder gave something that is no vector")
        return np.ascontiguousarray(vectors[0], dtype=np.float32)


def _key(request: SearchRequest) -> tuple[str, str]:
    return request.scope.tenant, request.collection


def _weights(counts: TermCounts, view: CollectionView) -> Terms:
    return query_weights(counts, chunks=view.statistics.chunks, document_counts=view.document_counts)
