"""What the errors of a model's backend mean to its breaker."""

from __future__ import annotations

from rag.breaker.outcome import Outcome
from rag.core.errors import CapacityError, DeadlineExceededError, RequestError, UpstreamError
from rag.deadline import PATIENCE_SECONDS


def failure_unless_neutral(error: BaseException) -> Outcome:
    """A failure, unless the request was at fault or there was too much of them: 4xx, 429, a caller in a hurry."""
    neutral = isinstance(error, RequestError | CapacityError | DeadlineExceededError)
    return Outcome.NEUTRAL if neutral else Outcome.FAILURE


def too_late(failed: type[UpstreamError], name: str, seconds: float) -> UpstreamError:
    """The error of a backend that did not answer within ``seconds``: the caller's fault where that was too little."""
    if seconds < PATIENCE_SECONDS:
        return DeadlineExceededError(f"the deadline left {name} too little time")
    return failed(f"{name} did not answer in time")
