"""How long to wait before something that died is started again."""

from __future__ import annotations

import time
from collections.abc import Callable


class Backoff:
    """Doubles from ``first`` to ``longest`` seconds; starts over after a run of ``stable`` seconds."""

    def __init__(
        self,
        *,
        first: float = 0.5,
        longest: float = 30.0,
        stable: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first = first
        self._longest = longest
        self._stable = stable
        self._clock = clock
        self._started = clock()
        self.failures = 0

    def started(self) -> None:
        """Note that it runs from now on."""
        self._started = self._clock()

    def died(self) -> float:
        """Note that it died; return the seconds to wait. ``failures`` counts deaths since the last stable run."""
        if self._clock() - self._started >= self._stable:
            self.failures = 0
        self.failures += 1
        return min(self._longest, self._first * float(2 ** min(self.failures - 1, 16)))
