"""A reranker that fails is left alone for a while, and searches keep the first stage's order."""

from __future__ import annotations

from rag.breaker import BreakerRules, CircuitBreaker
from rag.core.errors import RerankError
from rag.core.types import Mode
from rerank import GuardedReranker
from tests.unit.rag.query.fakes import FakeReranker, ask, make_hit, make_pipeline, serving, soon


async def test_a_reranker_that_failed_five_times_is_left_alone_until_it_has_recovered() -> None:
    now = 0.0
    corpus, store = serving(make_hit("a"), make_hit("b"))
    reranker = FakeReranker(fault=RerankError("down"))
    breaker = CircuitBreaker("test", BreakerRules(failures=5), clock=lambda: now)
    pipeline = make_pipeline(corpus, store, reranker=GuardedReranker(reranker, breaker))

    results = [await pipeline.search(ask(mode=Mode.DENSE), soon()) for _ in range(8)]
    assert [result.degraded for result in results] == [("rerank",)] * 8
    assert len(reranker.asked) == 5

    reranker.fault, now = None, 70.0
    assert (await pipeline.search(ask(mode=Mode.DENSE), soon())).degraded == ()
