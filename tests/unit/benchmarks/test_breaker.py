"""The benchmark of the circuit breaker holds, and notices a breaker that is wrong."""

from __future__ import annotations

import pytest

from benchmarks import breaker
from rag.breaker import CircuitBreaker, Outcome
from rag.breaker.breaker import Permit


async def test_one_probe_goes_through_and_no_random_step_differs_from_the_model() -> None:
    assert (await breaker.measure(seed=7, quick=True)).holds


async def test_a_breaker_that_takes_saying_nothing_for_success_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    leave = CircuitBreaker.leave

    def forgiving(self: CircuitBreaker, permit: Permit, outcome: Outcome) -> None:
        leave(self, permit, Outcome.SUCCESS if outcome is Outcome.NEUTRAL else outcome)

    monkeypatch.setattr(CircuitBreaker, "leave", forgiving)

    assert not (await breaker.measure(seed=7, quick=True)).holds
