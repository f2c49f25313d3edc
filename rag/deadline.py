"""One deadline a request, divided over its stages."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from rag.core.errors import DeadlineExceededError


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A point on a monotonic clock after which the caller no longer waits; ``at`` is in the clock's seconds."""

    at: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """The deadline ``seconds`` from now; zero or less has passed. Raises ``ValueError`` for NaN and infinity."""
        if not math.isfinite(seconds):
            raise ValueError("a deadline is a finite number of seconds away")
        return cls(at=clock() + seconds, clock=clock)

    def remaining(self) -> float:
        """Seconds left; never negative."""
        return max(0.0, self.at - self.clock())

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return self.remaining() <= 0.0

    def limit(self, at_most: float | None = None, share: float = 1.0) -> float:
        """Seconds a stage may take: ``share`` (0 to 1) of what remains, but not more than ``at_most``.

        A share below 1 keeps time for what follows, so that a fallback still runs when the stage is too slow.
        """
        seconds = self.remaining() * share
        return seconds if at_most is None else min(at_most, seconds)

    def check(self, stage: str) -> None:
        """Raise ``DeadlineExceededError``, naming the stage that would have come next, when no time is left."""
        if self.expired:
            raise DeadlineExceededError(f"the deadline passed before {stage}")
