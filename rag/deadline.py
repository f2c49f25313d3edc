"""One deadline a request, divided over its stages.

What a stage may take is also told, in a context variable, to what is called within it: a wrapper of a port that ends
a call just before the stage would know that the backend was late, and not the caller gone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from rag.core.errors import DeadlineExceededError

PATIENCE_SECONDS = 0.5
"""What says nothing for as long is at fault itself; cut off before, the caller's deadline was too short for it."""

_AHEAD_SECONDS = 0.02


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


_stage: ContextVar[Deadline | None] = ContextVar("stage", default=None)


@contextmanager
def stage_within(seconds: float) -> Iterator[None]:
    """What is called in the ``with`` body has ``seconds``."""
    token = _stage.set(Deadline.after(seconds))
    try:
        yield
    finally:
        _stage.reset(token)


def stage_seconds() -> float | None:
    """What is left to the stage that this is called in, less the moment that telling it takes; ``None`` outside."""
    stage = _stage.get()
    return None if stage is None else max(0.0, stage.remaining() - _AHEAD_SECONDS)
