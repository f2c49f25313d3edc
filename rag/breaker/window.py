"""Shares of failed and slow calls over the last seconds, in as many counters as there are seconds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class _Second:
    begin: float
    calls: int = 0
    failed: int = 0
    slow: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Calls that ended in the window, and the shares of them (0 to 1) that failed and that were slow."""

    calls: int
    failed: float
    slow: float


class Window:
    """Counts by the second, so that its size follows ``seconds`` and not the traffic."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._counts: deque[_Second] = deque()

    def add(self, now: float, *, failed: bool, slow: bool) -> None:
        """A call ended at ``now``, a time that never goes back."""
        if not self._counts or now - self._counts[-1].begin >= 1.0:
            self._counts.append(_Second(begin=now))
        last = self._counts[-1]
        last.calls += 1
        last.failed += failed
        last.slow += slow

    def shares(self, now: float) -> Shares:
        """What is counted of the last seconds; a second counts until all of it is too old."""
        while self._counts and now - self._counts[0].begin >= self._seconds + 1.0:
            self._counts.popleft()
        calls = sum(each.calls for each in self._counts)
        failed = sum(each.failed for each in self._counts)
        slow = sum(each.slow for each in self._counts)
        return Shares(calls=calls, failed=failed / calls if calls else 0.0, slow=slow / calls if calls else 0.0)

    def clear(self) -> None:
        """Forget all."""
        self._counts.clear()
