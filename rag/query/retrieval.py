"""First-stage retrieval and verification: what the store finds and the catalog still serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from rag.core.answers import DocumentLabel
from rag.core.errors import CatalogError, StoreError
from rag.core.filters import Filter
from rag.core.ports import Corpus, Searcher
from rag.core.records import Hit, SearchParams
from rag.core.types import Mode, Scope, Terms, Vector
from rag.deadline import Deadline
from rag.query.trace import Trace, bounded
from rag.query.types import QueryOptions
from rag.telemetry import stage_timer

_STORE_SHARE = 0.6
_VERIFY_SHARE = 0.6
_AGAIN_SHARE = 0.5
_SPARE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One retrieval: ``vector`` is ``None`` exactly in lexical mode.

    ``assumed``: ``physical`` is what the collection was last known to live in, and verification confirms it.
    """

    scope: Scope
    physical: str
    mode: Mode
    vector: Vector | None
    terms: Terms
    filter: Filter | None
    limit: int
    reranked: bool
    assumed: bool = False


@dataclass(slots=True, kw_only=True)
class Served:
    """What the catalog said so far: the served generation and label of each document that was asked about."""

    generations: dict[UUID, int] = field(default_factory=dict)
    labels: dict[UUID, DocumentLabel] = field(default_factory=dict)
    asked: set[tuple[UUID, int]] = field(default_factory=set)

    def holds(self, hit: Hit) -> bool:
        """Whether the hit's generation is the one being served."""
        return self.generations.get(hit.document) == hit.generation

    def open_questions(self, hits: Sequence[Hit]) -> list[dict[UUID, int]]:
        """What is still to be asked, a document once in each: the answer names documents, not generations."""
        rounds: list[dict[UUID, int]] = []
        pairs = {(hit.document, hit.generation): None for hit in hits}
        for document, generation in pairs:
            if (document, generation) in self.asked:
                continue
            free = next((each for each in rounds if document not in each), None)
            if free is None:
                rounds.append({document: generation})
            else:
                free[document] = generation
        return rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Verified hits, best first, ``retrieval_score`` set; ``shortfall``: fewer than the plan's limit."""

    hits: list[Hit]
    labels: dict[UUID, DocumentLabel]
    shortfall: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Retriever:
    """Asks the store for more than is needed, and again for more when too little of it is current."""

    corpus: Corpus
    store: Searcher
    options: QueryOptions

    async def retrieve(self, plan: Plan, deadline: Deadline, trace: Trace) -> Found:
        """Raises ``StoreError`` or ``CatalogError`` when one fails or is late.

        Raises ``CollectionNotFoundError`` when the collection is gone, or lives elsewhere than was assumed.
        """
        patience = deadline.limit(share=_AGAIN_SHARE)
        served = Served()
        size = self._first_page(plan)
        while True:
            page = await self._page(plan, size, deadline, trace)
            await self._verify(plan, page, served, deadline, trace)
            hits = [replace(hit, retrieval_score=hit.score) for hit in page if served.holds(hit)]
            exhausted = len(page) < size or size >= self.options.max_candidates
            if len(hits) >= plan.limit or exhausted or deadline.remaining() < patience:
                return Found(hits=hits, labels=served.labels, shortfall=len(hits) < plan.limit)
            size = min(max(size * 2, self.options.candidates), self.options.max_candidates)

    def _first_page(self, plan: Plan) -> int:
        """How many hits to ask for; a few spare ones for documents that are being replaced.

        Where one ranking decides, the top of a long page is the short page. Fusion and reranking look further
        down than what they return.
        """
        if plan.reranked or plan.mode is Mode.HYBRID:
            return max(plan.limit, self.options.candidates)
        return plan.limit + _SPARE

    async def _page(self, plan: Plan, size: int, deadline: Deadline, trace: Trace) -> list[Hit]:
        deadline.check("retrieval")
        with stage_timer("retrieve", trace.timings):
            return await bounded(
                self._ask(plan, size), deadline=deadline, late=StoreError, stage="the vector store", share=_STORE_SHARE
            )

    async def _ask(self, plan: Plan, size: int) -> list[Hit]:
        params = SearchParams(ef_search=max(self.options.ef_search, size))
        if plan.vector is None:
            return await self.store.lexical_search(
                plan.physical, plan.scope, plan.terms, limit=size, filter=plan.filter
            )
        if plan.mode is Mode.DENSE:
            return await self.store.search(
                plan.physical, plan.scope, plan.vector, limit=size, filter=plan.filter, params=params
            )
        return await self.store.hybrid_search(
            plan.physical, plan.scope, plan.vector, plan.terms, limit=size, filter=plan.filter, params=params
        )

    async def _verify(self, plan: Plan, hits: Sequence[Hit], served: Served, deadline: Deadline, trace: Trace) -> None:
        questions = served.open_questions(hits)
        if plan.assumed and not questions:
            questions = [{}]
        with stage_timer("verify", trace.timings):
            for question in questions:
                deadline.check("verification")
                labels = await bounded(
                    self.corpus.current(
                        plan.scope, set(question.items()), physical=plan.physical if plan.assumed else None
                    ),
                    deadline=deadline,
                    late=CatalogError,
                    stage="the catalog",
                    share=_VERIFY_SHARE,
                )
                served.asked.update(question.items())
                served.labels.update(labels)
                served.generations.update({document: question[document] for document in labels})
