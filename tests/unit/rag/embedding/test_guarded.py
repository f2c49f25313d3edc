"""An embedder that fails is left alone for a while, and searches go on by words."""

from __future__ import annotations

import pytest

from rag.breaker import BreakerRules, CircuitBreaker, State
from rag.core.errors import CapacityError, DeadlineExceededError, EmbeddingError, InvalidRequestError
from rag.core.types import Priority
from rag.deadline import Deadline
from rag.embedding import GuardedEmbedder
from tests.unit.rag.query.fakes import FakeEmbedder, ask, make_hit, make_pipeline, serving, soon

RULES = BreakerRules(failures=5, patience=0.01)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breakers(clock: Clock) -> dict[Priority, CircuitBreaker]:
    return {each: CircuitBreaker(f"test_{each.value}", RULES, clock=clock) for each in Priority}


async def test_an_embedder_that_failed_five_times_is_left_alone_until_it_has_recovered(
    breakers: dict[Priority, CircuitBreaker], clock: Clock
) -> None:
    corpus, store = serving(make_hit("a"))
    embedder = FakeEmbedder(fault=EmbeddingError("down"))
    pipeline = make_pipeline(corpus, store, embedder=GuardedEmbedder(embedder, breakers))

    results = [await pipeline.search(ask(), soon()) for _ in range(8)]
    assert embedder.calls == 5
    assert [result.degraded for result in results] == [("embedding",)] * 8

    embedder.fault, clock.now = None, 70.0
    assert (await pipeline.search(ask(), soon())).degraded == ()


async def test_a_dense_search_is_told_when_to_come_again(breakers: dict[Priority, CircuitBreaker]) -> None:
    guarded = GuardedEmbedder(FakeEmbedder(fault=EmbeddingError("down")), breakers)
    for _ in range(5):
        with pytest.raises(EmbeddingError, match="down"):
            await guarded.embed(["a"], kind="query")

    with pytest.raises(EmbeddingError) as refused:
        await guarded.embed(["a"], kind="query")

    assert refused.value.retry_after == pytest.approx(60, rel=0.1)


async def test_an_embedder_that_never_answers_within_the_searches_deadline_is_left_alone(
    breakers: dict[Priority, CircuitBreaker],
) -> None:
    corpus, store = serving(make_hit("a"))
    embedder = FakeEmbedder(delay=60)
    pipeline = make_pipeline(corpus, store, embedder=GuardedEmbedder(embedder, breakers))

    results = [await pipeline.search(ask(), Deadline.after(0.2)) for _ in range(6)]

    assert [result.degraded for result in results] == [("embedding",)] * 6
    assert (embedder.calls, breakers[Priority.INTERACTIVE].state) == (5, State.OPEN)


@pytest.mark.parametrize(
    "error", [InvalidRequestError("too long"), CapacityError("too many"), DeadlineExceededError("in a hurry")]
)
async def test_what_is_not_the_embedders_fault_is_not_held_against_it(
    breakers: dict[Priority, CircuitBreaker], error: Exception
) -> None:
    guarded = GuardedEmbedder(FakeEmbedder(fault=error), breakers)
    for _ in range(10):
        with pytest.raises(type(error)):
            await guarded.embed(["a"], kind="query")

    assert breakers[Priority.INTERACTIVE].state is State.CLOSED


async def test_a_model_that_is_still_loading_is_not_left_alone(breakers: dict[Priority, CircuitBreaker]) -> None:
    embedder = FakeEmbedder(fault=EmbeddingError("not there"))
    guarded = GuardedEmbedder(embedder, breakers, loading=lambda: True)
    for _ in range(10):
        with pytest.raises(EmbeddingError):
            await guarded.embed(["a"], kind="query")

    assert embedder.calls == 10


async def test_bulk_that_fails_cuts_off_no_query(breakers: dict[Priority, CircuitBreaker]) -> None:
    embedder = FakeEmbedder(fault=EmbeddingError("down"))
    guarded = GuardedEmbedder(embedder, breakers)
    for _ in range(6):
        with pytest.raises(EmbeddingError):
            await guarded.embed(["a"], kind="document", priority=Priority.BULK)

    assert (breakers[Priority.BULK].state, breakers[Priority.INTERACTIVE].state) == (State.OPEN, State.CLOSED)
