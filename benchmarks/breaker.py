"""The circuit breaker: one probe of fifty callers, and a million random steps beside the plain model of it.

A step lets a call in, ends one of those that run (well, badly or saying nothing), or lets time pass. After each the
breaker and ``benchmarks.breaker_model`` must be in the same state with the same count, and must have decided alike.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.breaker_model import Call, Model
from benchmarks.countdown import Countdown
from benchmarks.report import Bar, Report
from rag.breaker import BreakerRules, CircuitBreaker, Outcome, State
from rag.breaker.breaker import Permit

CALLERS = 50
RULES = BreakerRules(
    failures=3, recovery=8, longest_recovery=30, jitter=0.0, probe_age=5, window=6, least_calls=5, slow_call=4
)
MOST_RUNNING = 12
_BLOCK = 10_000


async def measure(*, seed: int, quick: bool) -> Report:
    """Race callers for the probe, then take the random steps."""
    logging.getLogger(CircuitBreaker.__module__).setLevel(logging.ERROR)
    steps, races = (100_000, 20) if quick else (1_000_000, 100)
    probes = [await probes_of_a_race() for _ in range(races)]
    began = time.perf_counter()
    walk = Walk(random.Random(seed))
    countdown = Countdown("random steps", steps)
    for done in range(0, steps, _BLOCK):
        walk.go(_BLOCK)
        countdown.show(done + _BLOCK)
        await asyncio.sleep(0)
    whats = ("refused open", "refused half-open", *(f"became {state}" for state in State))
    return Report(
        name="breaker",
        columns=("in the random steps", "times"),
        rows=[(what, walk.seen[what]) for what in whats],
        bars=(
            Bar(name=f"most probes of {CALLERS} callers at half-open", value=max(probes), bound=1, relation="<="),
            Bar(name=f"fewest probes of {CALLERS} callers at half-open", value=min(probes), bound=1, relation=">="),
            Bar(name=f"differences from the model in {steps} steps", value=walk.differences, bound=0, relation="<="),
            Bar(name="probes at once", value=walk.most_probes, bound=1, relation="<="),
        ),
        seed=seed,
        parameters={"steps": steps, "races": races, "seconds": round(time.perf_counter() - began, 1)},
    )


async def probes_of_a_race() -> int:
    """How many of many callers get through to a backend whose breaker has just become half-open."""
    now, probes, answered = 0.0, 0, asyncio.Event()
    breaker = CircuitBreaker("race", BreakerRules(jitter=0.0), clock=lambda: now)
    for _ in range(BreakerRules().failures):
        _end(breaker, Outcome.FAILURE)
    now = BreakerRules().recovery

    async def backend() -> None:
        nonlocal probes
        probes += 1
        await answered.wait()

    async def caller() -> None:
        await breaker.call(
            backend, refused=lambda _: ConnectionError(), late=lambda _: TimeoutError(), judge=lambda _: Outcome.FAILURE
        )

    callers = [asyncio.create_task(caller()) for _ in range(CALLERS)]
    await asyncio.sleep(0)
    answered.set()
    await asyncio.gather(*callers, return_exceptions=True)
    return probes


def _end(breaker: CircuitBreaker, outcome: Outcome) -> None:
    permit = breaker.enter()
    if isinstance(permit, Permit):
        breaker.leave(permit, outcome)


@dataclass
class Walk:
    """A random walk of a breaker and its model, side by side."""

    chance: random.Random
    now: float = 0.0
    differences: int = 0
    most_probes: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    running: list[tuple[Permit, Call]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.breaker = CircuitBreaker("walk", RULES, clock=lambda: self.now)
        self.model = Model(RULES)

    def go(self, steps: int) -> None:
        """Take some steps."""
        for _ in range(steps):
            before = self.breaker.state
            self._step()
            state = self.breaker.state
            if state is not before:
                self.seen[f"became {state}"] += 1
            alike = state is self.model.state and (
                state is not State.CLOSED or self.breaker.failures == self.model.failures
            )
            self.differences += not alike

    def _step(self) -> None:
        dice = self.chance.random()
        if dice < 0.1:
            self.now += self.chance.randint(1, 12)
        elif self.running and (dice < 0.5 or len(self.running) == MOST_RUNNING):
            permit, call = self.running.pop(self.chance.randrange(len(self.running)))
            outcome = self.chance.choice(list(Outcome))
            self.breaker.leave(permit, outcome)
            self.model.leave(call, outcome, self.now)
        else:
            self._enter()

    def _enter(self) -> None:
        permit, call = self.breaker.enter(), self.model.enter(self.now)
        if isinstance(permit, Permit) and call is not None:
            self.running.append((permit, call))
            self.most_probes = max(self.most_probes, self._probes())
        elif isinstance(permit, Permit) or call is not None:
            self.differences += 1
        else:
            self.seen[f"refused {self.breaker.state}"] += 1

    def _probes(self) -> int:
        """Probes of now that are not too old to count."""
        if self.model.state is not State.HALF_OPEN:
            return 0
        return sum(call.era == self.model.era and self.now - call.began < RULES.probe_age for _, call in self.running)
