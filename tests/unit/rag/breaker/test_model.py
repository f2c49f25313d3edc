"""Whatever calls come, end and leave, the breaker does what the plain model does."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from benchmarks.breaker_model import Call, Model
from rag.breaker import BreakerRules, CircuitBreaker, Outcome, State
from rag.breaker.breaker import Permit

RULES = BreakerRules(
    failures=3, recovery=8, longest_recovery=30, jitter=0.0, probe_age=5, window=6, least_calls=5, slow_call=4
)


class Comparison(RuleBasedStateMachine):
    """The breaker and the model, side by side; the calls that run are kept until each is ended."""

    running: Bundle[Any] = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.breaker = CircuitBreaker("test", RULES, clock=lambda: self.now)
        self.model = Model(RULES)

    @rule(target=running)
    def enter(self) -> Any:
        """A call comes."""
        permit, call = self.breaker.enter(), self.model.enter(self.now)
        assert isinstance(permit, Permit) == (call is not None)
        if isinstance(permit, Permit):
            return permit, call
        assert permit >= 0
        return multiple()

    @rule(call=consumes(running), outcome=st.sampled_from(Outcome))
    def leave(self, call: tuple[Permit, Call], outcome: Outcome) -> None:
        """One of those that run ends, perhaps long after the state it began in."""
        before, failures = self.breaker.state, self.breaker.failures
        self.breaker.leave(call[0], outcome)
        self.model.leave(call[1], outcome, self.now)
        if outcome is Outcome.NEUTRAL:
            assert (self.breaker.state, self.breaker.failures) == (before, failures)

    @rule(seconds=st.integers(1, 12))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.now += seconds

    @invariant()
    def both_are_in_one_state(self) -> None:
        """Always."""
        assert self.breaker.state == self.model.state
        if self.model.state is State.CLOSED:
            assert self.breaker.failures == self.model.failures


Comparison.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestComparison = Comparison.TestCase
