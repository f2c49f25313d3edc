"""pybreaker's state machine behind a gate for coroutines.

pybreaker counts failures and holds the state; its own ``call`` knows neither coroutines nor a single probe, counts
a cancellation as a failure and takes what it is told to leave out for a success. So a call is let in and its
outcome is recorded here, each without an ``await`` in between, and pybreaker is told of outcomes that count alone.
Results that began in another state of the machine (the *generation* of a permit) are dropped.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pybreaker

from rag.breaker.outcome import Outcome
from rag.breaker.rules import BreakerRules
from rag.breaker.states import State
from rag.breaker.window import Window
from rag.telemetry import BREAKER_REJECTED, BREAKER_STATE, BREAKER_TRANSITIONS

T = TypeVar("T")

_FOREVER = 1e9

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Permit:
    """One call that was let in; ``generation`` counts the changes of state until then."""

    generation: int
    began: float


class CircuitBreaker:
    """One backend's breaker; belongs to one event loop.

    ``name`` is a word of a closed set, for metrics and logs.
    """

    def __init__(
        self,
        name: str,
        rules: BreakerRules,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._name = name
        self._rules = rules
        self._clock = clock
        self._chance = chance
        self._generation = 0
        self._probe: Permit | None = None
        self._reopens_at = 0.0
        self._openings = 0
        self._window = Window(rules.window)
        self._circuit = pybreaker.CircuitBreaker(
            fail_max=rules.failures,
            # Time is kept here, by a clock that cannot be set back; the machine itself never ends its open state.
            reset_timeout=_FOREVER,
            listeners=[_Listener(self._enter_state)],
            name=name,
            throw_new_error_on_trip=False,
        )

        self._show(State.CLOSED)

    @property
    def state(self) -> State:
        """The state; open until a call comes after the recovery."""
        return State(self._circuit.current_state)

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return int(self._circuit.fail_counter)

    def enter(self) -> Permit | float:
        """Let a call in, or say in how many seconds to try again. Each permit is given back by :meth:`leave`."""
        now = self._clock()
        if self.state is State.OPEN:
            if now < self._reopens_at:
                return self._reopens_at - now
            self._circuit.half_open()
        permit = Permit(self._generation, now)
        if self.state is State.HALF_OPEN:
            if self._probe is not None and now - self._probe.began < self._rules.probe_age:
                return max(0.0, self._probe.began + self._rules.probe_age - now)
            self._probe = permit
        return permit

    def leave(self, permit: Permit, outcome: Outcome) -> None:
        """Record how the call ended. What an older state let in, or a probe that was given up, says nothing."""
        if permit.generation != self._generation:
            return
        if self.state is State.HALF_OPEN:
            if permit is not self._probe:
                return
            self._probe = None
        if outcome is Outcome.NEUTRAL:
            return
        self._tell(outcome)
        self._judge(permit, outcome)

    async def call(
        self,
        work: Callable[[], Awaitable[T]],
        *,
        refused: Callable[[float], Exception],
        late: Callable[[float], Exception],
        judge: Callable[[BaseException], Outcome],
        at_most: float | None = None,
    ) -> T:
        """The result of ``work``, which may take the rules' ``call_timeout``, or ``at_most`` seconds if that is less.

        Raises what ``refused`` makes of the seconds until it is worth trying again; what ``late`` makes of the seconds
        that the call had; and what ``work`` raises. ``judge`` says what an error, or a ``TimeoutError`` of a call
        that had the rules' ``patience``, says of the backend; a cancellation says nothing.
        """
        permit = self.enter()
        if not isinstance(permit, Permit):
            BREAKER_REJECTED.labels(self._name, self.state).inc()
            raise refused(permit)
        outcome = Outcome.NEUTRAL
        seconds = self._rules.call_timeout if at_most is None else min(at_most, self._rules.call_timeout)
        try:
            async with asyncio.timeout(seconds) as limit:
                result = await work()
        except TimeoutError as error:
            if not limit.expired():
                outcome = judge(error)
                raise
            if seconds >= min(self._rules.patience, self._rules.call_timeout):
                outcome = judge(error)
            raise late(seconds) from error
        except Exception as error:
            outcome = judge(error)
            raise
        else:
            outcome = Outcome.SUCCESS
            return result
        finally:
            self.leave(permit, outcome)

    def _tell(self, outcome: Outcome) -> None:
        failure = _BackendError()

        def result() -> None:
            if outcome is Outcome.FAILURE:
                raise failure

        with suppress(_BackendError):
            self._circuit.call(result)

    def _judge(self, permit: Permit, outcome: Outcome) -> None:
        """Open where too large a share of the calls of late failed or was slow."""
        if self.state is not State.CLOSED or permit.generation != self._generation:
            return
        now, rules = self._clock(), self._rules
        self._window.add(now, failed=outcome is Outcome.FAILURE, slow=now - permit.began >= rules.slow_call)
        shares = self._window.shares(now)
        if shares.calls >= rules.least_calls and (
            shares.failed >= rules.failure_ratio or shares.slow >= rules.slow_ratio
        ):
            self._circuit.open()

    def _enter_state(self, old: State, new: State) -> None:
        self._generation += 1
        self._probe = None
        self._window.clear()
        if new is State.OPEN:
            self._openings = self._openings + 1 if old is State.HALF_OPEN else 1
            self._reopens_at = self._clock() + self._recovery()
        _logger.warning(
            "breaker changed state", extra={"action": "breaker", "breaker": self._name, "from": old, "to": new}
        )
        self._show(new)
        BREAKER_TRANSITIONS.labels(self._name, new).inc()

    def _show(self, state: State) -> None:
        for each in State:
            BREAKER_STATE.labels(self._name, each).set(each is state)

    def _recovery(self) -> float:
        rules = self._rules
        seconds = min(rules.longest_recovery, rules.recovery * 2.0 ** min(self._openings - 1, 30))
        return seconds * (1.0 + rules.jitter * (2.0 * self._chance() - 1.0))


class _BackendError(Exception):
    """Stands for a failed call where the machine is told of it."""


class _Listener(pybreaker.CircuitBreakerListener):
    def __init__(self, changed: Callable[[State, State], None]) -> None:
        self._changed_to = changed

    def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
        """See ``pybreaker.CircuitBreakerListener``."""
        del cb
        self._changed_to(State(old_state.name), State(new_state.name))
