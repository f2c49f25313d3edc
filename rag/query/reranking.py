"""The reranking stage: the cross-encoder's order for the top, the first stage's for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rag.core.errors import RerankError
from rag.core.ports import Reranker
from rag.core.records import Hit
from rag.deadline import Deadline
from rag.query.languages import unread_language
from rag.query.trace import STAGE_FAILURES, Trace, bounded
from rag.query.types import QueryOptions
from rag.telemetry import stage_timer

_SHARE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankStage:
    """Reranks where it applies, and leaves the order as it is where it does not or fails."""

    reranker: Reranker | None
    options: QueryOptions

    async def order(self, query: str, hits: list[Hit], deadline: Deadline, trace: Trace) -> list[Hit]:
        """The same hits; scores never rise along the list."""
        if self.reranker is None:
            trace.skip("rerank", "not configured")
            return hits
        language = unread_language(self.reranker.languages, query)
        if language is not None:
            trace.skip("rerank", f"language: {language}")
            return hits
        if not hits:
            return hits
        try:
            with stage_timer("rerank", trace.timings):
                return await self._rerank(self.reranker, query, hits, deadline)
        except STAGE_FAILURES as error:
            trace.degrade("rerank", error)
            return hits

    async def _rerank(self, reranker: Reranker, query: str, hits: list[Hit], deadline: Deadline) -> list[Hit]:
        head, tail = hits[: self.options.rerank_depth], hits[self.options.rerank_depth :]
        ranked = await bounded(
            reranker.rerank(query, head),
            deadline=deadline,
            late=RerankError,
            stage="the reranker",
            at_most=self.options.rerank_timeout,
            share=_SHARE,
        )
        _check(head, ranked)
        floor = ranked[-1].score
        return ranked + [replace(hit, score=min(floor, hit.score)) for hit in tail]


def _check(asked: Sequence[Hit], ranked: Sequence[Hit]) -> None:
    if sorted(hit.id for hit in asked) != sorted(hit.id for hit in ranked):
        raise RerankError("the reranker gave other hits than it was asked for")
