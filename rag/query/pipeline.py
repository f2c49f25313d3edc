"""One search or one answer, stage by stage, within one deadline."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from rag.core.answers import SearchResult
from rag.core.catalog import CollectionView
from rag.core.errors import CollectionLostError, CollectionNotFoundError
from rag.core.ports import Corpus, Embedder, Generator, Reranker, VectorStore
from rag.deadline import Deadline
from rag.query.answer import AnswerStage, Writing, number_evidence
from rag.query.draft import Draft
from rag.query.planning import Planner
from rag.query.reranking import RerankStage
from rag.query.retrieval import Found, Retriever
from rag.query.trace import Trace
from rag.query.types import AnswerEvent, AnswerRequest, DoneEvent, HitsEvent, QueryOptions, SearchRequest
from rag.query.validation import check_answer, check_search
from rag.telemetry import RETRIEVED_CHUNKS, stage_timer

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
        self._options = options
        self._planner = Planner(
            corpus=corpus, store=store, embedder=embedder, options=options, reranks=reranker is not None
        )
        self._retriever = Retriever(corpus=corpus, store=store, options=options)
        self._rerank = RerankStage(reranker=reranker, options=options)
        self._answer = AnswerStage(generator=generator, options=options)

    async def search(self, request: SearchRequest, deadline: Deadline) -> SearchResult:
        """The best hits that are current and allowed; two round trips or three where nothing crowds the top.

        An embedder that fails leaves the lexical side (``degraded: embedding``), a reranker the retrieval order
        (``degraded: rerank``); ``strict`` raises ``DegradedError`` instead. Raises ``InvalidRequestError``,
        ``FilterError``, ``CollectionNotFoundError``, ``ModelMismatchError``; ``StoreError`` or ``CatalogError``
        when one is down; ``CollectionLostError``; ``DeadlineExceededError``.
        """
        query = check_search(request, self._options)
        trace = Trace(strict=request.strict)
        with stage_timer("search", trace.timings):
            found, view = await self._find(request, query, deadline, trace)
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

    async def _find(
        self, request: SearchRequest, query: str, deadline: Deadline, trace: Trace
    ) -> tuple[Found, CollectionView]:
        plan, view = await self._planner.plan(request, query, deadline, trace)
        if plan.assumed:
            with suppress(CollectionNotFoundError):
                return await self._retriever.retrieve(plan, deadline, trace), view
            plan, view = await self._planner.plan(request, query, deadline, trace, fresh=True)
        try:
            return await self._retriever.retrieve(plan, deadline, trace), view
        except CollectionNotFoundError:
            raise CollectionLostError(
                f"the vector store has lost the collection {view.name!r}: `anchorage doctor` says what is missing, "
                f"`anchorage rebuild {view.name}` indexes it again"
            ) from None

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
