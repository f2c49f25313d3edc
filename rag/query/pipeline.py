"""One search or one answer, stage by stage, within one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import numpy as np

from rag.core.answers import SearchResult
from rag.core.catalog import CollectionView
from rag.core.errors import CatalogError, EmbeddingError, ModelMismatchError
from rag.core.filters import parse_filter
from rag.core.ports import Corpus, Embedder, Generator, Reranker, VectorStore
from rag.core.records import Feature
from rag.core.types import Mode, Vector
from rag.deadline import Deadline
from rag.lexical import TermCounts, count_terms, query_weights
from rag.query.answer import AnswerStage, Writing, number_evidence
from rag.query.draft import Draft
from rag.query.reranking import RerankStage
from rag.query.retrieval import Plan, Retriever
from rag.query.trace import STAGE_FAILURES, Trace, bounded
from rag.query.types import AnswerEvent, AnswerRequest, DoneEvent, HitsEvent, QueryOptions, SearchRequest
from rag.query.validation import check_answer, check_search
from rag.telemetry import RETRIEVED_CHUNKS, stage_timer

_EMBED_SHARE = 0.4
_CATALOG_SHARE = 0.4
_SEARCH_SHARE = 0.5


class QueryPipeline:
    """The query path. Holds no state of a request; every call brings its scope and deadline."""

    def __init__(
        self,
        corpus: Corpus,
        store: VectorStore,
        embedder: Embedder,
        reranker: Reranker | None = None,
        generator: Generator | None = None,
        *,
        options: QueryOptions = QueryOptions(),  # noqa: B008  frozen
    ) -> None:
        self._corpus = corpus
        self._store = store
        self._embedder = embedder
        self._options = options
        self._retriever = Retriever(corpus=corpus, store=store, options=options)
        self._rerank = RerankStage(reranker=reranker, options=options)
        self._answer = AnswerStage(generator=generator, options=options)

    async def search(self, request: SearchRequest, deadline: Deadline) -> SearchResult:
        """The best hits that are current and allowed; three round trips where nothing crowds the top.

        An embedder that fails leaves the lexical side (``degraded: embedding``), a reranker the retrieval order
        (``degraded: rerank``); ``strict`` raises ``DegradedError`` instead. Raises ``InvalidRequestError``,
        ``FilterError``, ``CollectionNotFoundError``, ``ModelMismatchError``; ``StoreError`` or ``CatalogError``
        when one is down; ``DeadlineExceededError``.
        """
        query = check_search(request, self._options)
        trace = Trace(strict=request.strict)
        with stage_timer("search", trace.timings):
            plan, view = await self._plan(request, query, deadline, trace)
            found = await self._retriever.retrieve(plan, deadline, trace)
            hits = await self._rerank.order(query, found.hits, deadline, trace) if request.rerank else found.hits
        hits = hits[: request.limit]
        RETRIEVED_CHUNKS.observe(len(hits))
        return SearchResult(
            hits=tuple(hits),
            degraded=tuple(trace.degraded),
            skipped=tuple(trace.skipped),
            timings=trace.timings,
            shortfall=found.shortfall,
            epoch=view.epoch,
            documents={hit.document: found.labels[hit.document] for hit in hits},
        )

    async def answer(self, request: AnswerRequest, deadline: Deadline) -> AsyncGenerator[AnswerEvent, None]:
        """The hits, then the text with its citations as it is written, then the whole answer.

        A generator that fails leaves an extractive answer (``degraded: generation``). Closing the iterator
        cancels whatever runs. Raises what :meth:`search` raises.
        """
        check_answer(request)
        within = Deadline.after(
            deadline.limit(self._options.search_deadline, share=_SEARCH_SHARE), clock=deadline.clock
        )
        search = await self.search(request.search, within)
        trace = Trace(strict=request.search.strict)
        draft = Draft(question=request.search.query.strip())
        yield HitsEvent(search=search)
        with stage_timer("answer", trace.timings):
            writing = Writing(
                request=request, evidence=number_evidence(search), draft=draft, trace=trace, deadline=deadline
            )
            async with aclosing(self._answer.write(writing)) as events:
                async for event in events:
                    yield event
        yield DoneEvent(answer=draft.finish(search, trace))

    async def _plan(
        self, request: SearchRequest, query: str, deadline: Deadline, trace: Trace
    ) -> tuple[Plan, CollectionView]:
        counts = count_terms(query)
        mode = self._mode(request.mode, trace)
        async with self._embedding(query, mode, deadline, trace) as embedding:
            view = await self._collection(request, counts, deadline, trace)
            self._check_model(view)
            plan = Plan(
                scope=request.scope,
                physical=view.physical,
                mode=mode,
                vector=None,
                terms=query_weights(counts, chunks=view.statistics.chunks, document_counts=view.document_counts),
                filter=parse_filter(request.filter, view.spec.filterable) if request.filter is not None else None,
                limit=request.limit,
                reranked=request.rerank and self._rerank.reranker is not None,
            )
            if embedding is None:
                return plan, view
            try:
                return replace(plan, vector=await embedding), view
            except STAGE_FAILURES as error:
                if Feature.LEXICAL not in self._store.capabilities.features:
                    raise
                trace.degrade("embedding", error)
                return replace(plan, mode=Mode.LEXICAL), view

    def _mode(self, mode: Mode, trace: Trace) -> Mode:
        offered = self._store.capabilities
        if mode is Mode.DENSE or Feature.LEXICAL in offered.features:
            return mode
        trace.skip("lexical", offered.reasons.get(Feature.LEXICAL, "the store does not offer it"))
        return Mode.DENSE

    async def _collection(
        self, request: SearchRequest, counts: TermCounts, deadline: Deadline, trace: Trace
    ) -> CollectionView:
        deadline.check("the catalog")
        with stage_timer("catalog", trace.timings):
            return await bounded(
                self._corpus.collection(request.scope, request.collection, terms=tuple(counts.counts)),
                deadline=deadline,
                late=CatalogError,
                stage="the catalog",
                share=_CATALOG_SHARE,
            )

    def _check_model(self, view: CollectionView) -> None:
        if view.embedding_model != self._embedder.model:
            raise ModelMismatchError(
                f"collection {view.name!r} was made with the embedding model {view.embedding_model!r}, "
                f"but the service is configured with {self._embedder.model!r}"
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
                self._embedder.embed([query], kind="query"),
                deadline=deadline,
                late=EmbeddingError,
                stage="the embedder",
                at_most=self._options.embedding_timeout,
                share=_EMBED_SHARE,
            )
        if vectors.shape != (1, self._embedder.dimension) or not np.isfinite(vectors).all():
            raise EmbeddingError("the embedder gave something that is no vector")
        return np.ascontiguousarray(vectors[0], dtype=np.float32)
