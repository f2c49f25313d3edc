"""An embedder behind circuit breakers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from rag.breaker import CircuitBreaker, Outcome, failure_unless_neutral, too_late
from rag.core.errors import EmbeddingError
from rag.core.ports import Embedder
from rag.core.types import Priority, Vectors
from rag.deadline import stage_seconds


class GuardedEmbedder:
    """See ``Embedder``; one breaker for each workload, so that bulk work that fails cuts off no query.

    While ``loading`` says that the model is not there yet, nothing is held against it.
    """

    def __init__(
        self,
        embedder: Embedder,
        breakers: Mapping[Priority, CircuitBreaker],
        *,
        loading: Callable[[], bool] = lambda: False,
    ) -> None:
        self._embedder = embedder
        self._breakers = breakers
        self._loading = loading

    @property
    def model(self) -> str:
        """See ``Embedder``."""
        return self._embedder.model

    @property
    def dimension(self) -> int:
        """See ``Embedder``."""
        return self._embedder.dimension

    async def embed(
        self,
        texts: Sequence[str],
        *,
        kind: Literal["query", "document"],
        priority: Priority = Priority.INTERACTIVE,
    ) -> Vectors:
        """See ``Embedder``; raises ``EmbeddingError`` with ``retry_after`` at once while the breaker is open."""
        return await self._breakers[priority].call(
            lambda: self._embedder.embed(texts, kind=kind, priority=priority),
            refused=lambda seconds: EmbeddingError("the embedder failed too often lately", retry_after=seconds),
            late=lambda seconds: too_late(EmbeddingError, "the embedder", seconds),
            judge=self._judge,
            at_most=stage_seconds(),
        )

    def _judge(self, error: BaseException) -> Outcome:
        return Outcome.NEUTRAL if self._loading() else failure_unless_neutral(error)
