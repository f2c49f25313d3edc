"""Circuit breakers: a backend that fails is left alone for a while, and then asked by one call first."""

from rag.breaker.backend import failure_unless_neutral, too_late
from rag.breaker.breaker import CircuitBreaker
from rag.breaker.outcome import Outcome
from rag.breaker.rules import BreakerRules
from rag.breaker.states import State

__all__ = ["BreakerRules", "CircuitBreaker", "Outcome", "State", "failure_unless_neutral", "too_late"]
