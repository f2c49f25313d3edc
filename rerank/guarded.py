"""A reranker behind a circuit breaker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rag.breaker import CircuitBreaker, Outcome, failure_unless_neutral, too_late
from rag.core.errors import RerankError
from rag.core.ports import Reranker
from rag.core.records import Hit
from rag.deadline import stage_seconds


class GuardedReranker:
    """See ``Reranker``. While ``loading`` says that the model is not there yet, nothing is held against it."""

    def __init__(
        self, reranker: Reranker, breaker: CircuitBreaker, *, loading: Callable[[], bool] = lambda: False
    ) -> None:
        self._reranker = reranker
        self._breaker = breaker
        self._loading = loading

    @property
    def languages(self) -> frozenset[str]:
        """See ``Reranker``."""
        return self._reranker.languages

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """See ``Reranker``; raises ``RerankError`` with ``retry_after`` at once while the breaker is open."""
        return await self._breaker.call(
            lambda: self._reranker.rerank(query, hits),
            refused=lambda seconds: RerankError("the reranker failed too often lately", retry_after=seconds),
            late=lambda seconds: too_late(RerankError, "the reranker", seconds),
            judge=self._judge,
            at_most=stage_seconds(),
        )

    def _judge(self, error: BaseException) -> Outcome:
        return Outcome.NEUTRAL if self._loading() else failure_unless_neutral(error)
