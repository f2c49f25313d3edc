"""A breaker around coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rag.breaker import BreakerRules, CircuitBreaker, Outcome, State
from rag.breaker.breaker import Permit
from rag.telemetry import REGISTRY

RULES = BreakerRules(failures=3, recovery=60, jitter=0.1, call_timeout=5, patience=0.02)


class Refused(Exception):  # noqa: N818  raised by the breaker in place of the call
    """With the seconds until it is worth trying again."""


class Late(Exception):  # noqa: N818
    """The call took too long."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker("test", RULES, clock=clock, chance=lambda: 0.5)


def judge(error: BaseException) -> Outcome:
    return Outcome.NEUTRAL if isinstance(error, ValueError) else Outcome.FAILURE


async def call(breaker: CircuitBreaker, work: Callable[[], Awaitable[Any]], **options: Any) -> Any:
    return await breaker.call(work, refused=Refused, late=Late, judge=judge, **options)


def raising(error: Exception) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        raise error

    return work


def admitted(breaker: CircuitBreaker) -> Permit:
    permit = breaker.enter()
    assert isinstance(permit, Permit)
    return permit


def state(breaker: CircuitBreaker) -> State:
    return breaker.state


async def answer() -> str:
    return "here"


async def never() -> None:
    await asyncio.Event().wait()


async def opened(breaker: CircuitBreaker) -> None:
    for _ in range(RULES.failures):
        with pytest.raises(OSError, match="down"):
            await call(breaker, raising(OSError("down")))
    assert state(breaker) is State.OPEN


async def test_failures_in_a_row_open_it_and_each_keeps_its_own_error(breaker: CircuitBreaker) -> None:
    await opened(breaker)

    with pytest.raises(Refused) as refused:
        await call(breaker, answer)

    assert refused.value.args == (60.0,)


async def test_a_success_in_between_starts_the_count_again(breaker: CircuitBreaker) -> None:
    for _ in range(2):
        for _ in range(RULES.failures - 1):
            with pytest.raises(OSError, match="down"):
                await call(breaker, raising(OSError("down")))
        assert await call(breaker, answer) == "here"

    assert (breaker.state, breaker.failures) == (State.CLOSED, 0)


async def test_faults_of_the_request_say_nothing_of_the_backend(breaker: CircuitBreaker) -> None:
    for _ in range(10):
        with pytest.raises(ValueError, match="too long"):
            await call(breaker, raising(ValueError("too long")))

    assert (breaker.state, breaker.failures) == (State.CLOSED, 0)


async def test_fifty_that_come_after_the_recovery_send_one_probe(breaker: CircuitBreaker, clock: Clock) -> None:
    await opened(breaker)
    clock.now += 61
    probes, go = 0, asyncio.Event()

    async def probe() -> str:
        nonlocal probes
        probes += 1
        await go.wait()
        return "here"

    callers = [asyncio.create_task(call(breaker, probe)) for _ in range(50)]
    await asyncio.sleep(0)
    go.set()
    results = await asyncio.gather(*callers, return_exceptions=True)

    assert probes == 1
    assert results.count("here") == 1
    assert sum(isinstance(each, Refused) for each in results) == 49
    assert state(breaker) is State.CLOSED


async def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_the_longest(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    await opened(breaker)
    waits = []
    for _ in range(4):
        with pytest.raises(Refused) as refused:
            await call(breaker, answer)
        waits.append(refused.value.args[0])
        clock.now += waits[-1]
        with pytest.raises(OSError, match="still"):
            await call(breaker, raising(OSError("still down")))

    assert waits == [60.0, 120.0, 240.0, 300.0]


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 54.0), (0.5, 60.0), (1.0, 66.0)])
async def test_the_recovery_is_a_tenth_shorter_or_longer_by_chance(clock: Clock, chance: float, seconds: float) -> None:
    breaker = CircuitBreaker("test", RULES, clock=clock, chance=lambda: chance)
    await opened(breaker)
    with pytest.raises(Refused) as refused:
        await call(breaker, answer)
    assert refused.value.args[0] == pytest.approx(seconds)


@pytest.mark.parametrize("neutral", ["cancelled", "fault of the request"])
async def test_a_probe_that_says_nothing_leaves_its_place_to_the_next(
    breaker: CircuitBreaker, clock: Clock, neutral: str
) -> None:
    await opened(breaker)
    clock.now += 61
    if neutral == "cancelled":
        probe = asyncio.create_task(call(breaker, never))
        await asyncio.sleep(0)
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
    else:
        with pytest.raises(ValueError, match="bad"):
            await call(breaker, raising(ValueError("bad")))
    assert state(breaker) is State.HALF_OPEN

    assert await call(breaker, answer) == "here"
    assert state(breaker) is State.CLOSED


async def test_a_probe_that_is_lost_makes_room_and_its_late_result_says_nothing(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    await opened(breaker)
    clock.now += 61
    lost = admitted(breaker)
    clock.now += RULES.probe_age
    probe = admitted(breaker)

    breaker.leave(lost, Outcome.FAILURE)
    assert state(breaker) is State.HALF_OPEN
    breaker.leave(probe, Outcome.SUCCESS)
    assert state(breaker) is State.CLOSED


async def test_what_began_before_it_opened_neither_closes_nor_prolongs_it(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    early = [admitted(breaker) for _ in range(2)]
    await opened(breaker)

    clock.now += 59
    breaker.leave(early[0], Outcome.FAILURE)
    breaker.leave(early[1], Outcome.SUCCESS)

    assert state(breaker) is State.OPEN
    clock.now += 1
    assert await call(breaker, answer) == "here"


async def test_a_call_that_had_time_enough_and_did_not_end_is_a_failure(breaker: CircuitBreaker) -> None:
    with pytest.raises(Late):
        await call(breaker, never, at_most=RULES.patience)

    assert breaker.failures == 1


async def test_a_call_that_its_caller_gave_too_little_time_is_none(breaker: CircuitBreaker) -> None:
    with pytest.raises(Late):
        await call(breaker, never, at_most=RULES.patience / 4)

    assert breaker.failures == 0


async def test_a_backend_that_fails_every_second_time_is_opened_by_its_share(clock: Clock) -> None:
    breaker = CircuitBreaker("test", BreakerRules(least_calls=20), clock=clock)

    for number in range(20):
        assert state(breaker) is State.CLOSED
        permit = admitted(breaker)
        breaker.leave(permit, Outcome.FAILURE if number % 2 else Outcome.SUCCESS)

    assert state(breaker) is State.OPEN


async def test_a_backend_that_became_slow_is_opened_by_its_share(clock: Clock) -> None:
    breaker = CircuitBreaker("test", BreakerRules(slow_call=2, window=600), clock=clock)

    for _ in range(20):
        permit = admitted(breaker)
        clock.now += 2
        breaker.leave(permit, Outcome.SUCCESS)

    assert state(breaker) is State.OPEN


async def test_the_metrics_tell_the_state_the_changes_and_what_was_refused(clock: Clock) -> None:
    breaker = CircuitBreaker("told", RULES, clock=clock)
    await opened(breaker)
    with pytest.raises(Refused):
        await call(breaker, answer)

    def told(metric: str, **labels: str) -> float | None:
        return REGISTRY.get_sample_value(f"rag_circuit_breaker_{metric}", {"breaker": "told", **labels})

    assert {state: told("state", state=state) for state in State} == {"closed": 0, "open": 1, "half-open": 0}
    assert told("rejected_total", reason="open") == 1
    clock.now += 70
    await call(breaker, answer)
    assert {state: told("transitions_total", to=state) for state in State} == {"closed": 1, "open": 1, "half-open": 1}


async def test_a_judge_that_fails_itself_leaves_no_probe_behind(breaker: CircuitBreaker, clock: Clock) -> None:
    await opened(breaker)
    clock.now += 61

    def broken(error: BaseException) -> Outcome:
        raise KeyError("judge")

    with pytest.raises(KeyError, match="judge"):
        await breaker.call(raising(OSError()), refused=Refused, late=Late, judge=broken)
    assert await call(breaker, answer) == "here"
