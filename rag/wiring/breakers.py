"""The models of the query path behind their circuit breakers, one for each model and workload."""

from __future__ import annotations

from rag.breaker import BreakerRules, CircuitBreaker
from rag.core.ports import Embedder, Reranker
from rag.core.types import Priority
from rag.embedding import GuardedEmbedder
from rag.embedding.host import Loadable
from rag.settings import Settings
from rag.wiring.models import Models
from rerank import GuardedReranker


def guarded_embedder(models: Models, settings: Settings) -> Embedder:
    """The embedder as searches call it."""
    rules = _rules(settings, settings.embedding.timeout)
    breakers = {each: CircuitBreaker(f"embedding_{each.value}", rules) for each in Priority}
    return GuardedEmbedder(models.embedder, breakers, loading=lambda: _is_loading(models.embedder))


def guarded_reranker(models: Models, settings: Settings) -> Reranker | None:
    """The reranker as searches call it, where there is one."""
    scorer, reranker = models.scorer, models.reranker
    if scorer is None or reranker is None:
        return reranker
    breaker = CircuitBreaker("rerank", _rules(settings, settings.rerank.timeout))
    return GuardedReranker(reranker, breaker, loading=lambda: _is_loading(scorer))


def _rules(settings: Settings, timeout: float) -> BreakerRules:
    return BreakerRules(
        failures=settings.breaker.failures, recovery=settings.breaker.recovery, call_timeout=timeout, probe_age=timeout
    )


def _is_loading(model: Loadable) -> bool:
    return not model.ready and model.error is None
