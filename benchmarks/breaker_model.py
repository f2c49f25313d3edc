"""What a breaker should do, written down plainly: the reference that ``rag.breaker`` is compared with.

It knows no pybreaker, keeps every result of the window instead of counts, and looks through all of them each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rag.breaker import BreakerRules, Outcome, State


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call that was let in, with the number of the state's change before it."""

    era: int
    began: float


@dataclass(slots=True)
class Model:
    """A breaker without jitter; times are whole seconds, so that a second of its window is one moment."""

    rules: BreakerRules
    state: State = State.CLOSED
    era: int = 0
    failures: int = 0
    reopens_at: float = 0.0
    openings: int = 0
    probe: Call | None = None
    ended: list[tuple[float, bool, bool]] = field(default_factory=list)

    def enter(self, now: float) -> Call | None:
        """The call, or ``None`` where it is refused."""
        if self.state is State.OPEN:
            if now < self.reopens_at:
                return None
            self._become(State.HALF_OPEN, now)
        if self.state is State.CLOSED:
            return Call(self.era, now)
        if self.probe is not None and now - self.probe.began < self.rules.probe_age:
            return None
        self.probe = Call(self.era, now)
        return self.probe

    def leave(self, call: Call, outcome: Outcome, now: float) -> None:
        """The call has ended."""
        if call.era != self.era or (self.state is State.HALF_OPEN and call is not self.probe):
            return
        failed = outcome is Outcome.FAILURE
        if self.state is State.HALF_OPEN:
            self.probe = None
            if outcome is not Outcome.NEUTRAL:
                self._become(State.OPEN if failed else State.CLOSED, now)
        elif outcome is not Outcome.NEUTRAL:
            self.failures = self.failures + 1 if failed else 0
            self.ended.append((now, failed, now - call.began >= self.rules.slow_call))
            if self.failures >= self.rules.failures or self._is_bad(now):
                self._become(State.OPEN, now)

    def _is_bad(self, now: float) -> bool:
        recent = [(failed, slow) for at, failed, slow in self.ended if now - at < self.rules.window + 1]
        if len(recent) < self.rules.least_calls:
            return False
        failed = sum(each for each, _ in recent) / len(recent)
        slow = sum(each for _, each in recent) / len(recent)
        return failed >= self.rules.failure_ratio or slow >= self.rules.slow_ratio

    def _become(self, state: State, now: float) -> None:
        if state is State.OPEN:
            self.openings = self.openings + 1 if self.state is State.HALF_OPEN else 1
            self.reopens_at = now + min(self.rules.longest_recovery, self.rules.recovery * 2 ** (self.openings - 1))
        if state is State.CLOSED:
            self.failures = 0
        self.state, self.probe, self.ended = state, None, []
        self.era += 1
