"""Which consistency a read asks for, so that it sees every write that returned before it began.

A write ends with one read at level *Strong*, the barrier: it returns when the one copy of the collection that
answers reads has come to a moment after the write. That moment never goes back, so every later read sees the
write, from whatever process, at level *Bounded*, which waits for nothing in the usual case (1.5 ms, where *Strong*
waits for the server's next tick, 200 ms apart by default). For the seconds after a write of its own, in which the
server may hand the copy to another node, a process names the write's timestamp as the least that it accepts (level
*Session*); after that *Bounded* includes it by definition, as it lags by 5 s at most. Several copies come to a
moment one by one, so with ``replicas`` above one each read is *Strong*. Milvus Lite reads what was written.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LAG_SECONDS = 10.0
"""Twice as long as a *Bounded* read may lag behind."""


class Consistency:
    """Notes the writes of this process, by collection, and names the level of its reads."""

    def __init__(self, *, replicas: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._replicas = replicas
        self._clock = clock
        self._written: dict[str, float] = {}

    def wrote(self, collection: str) -> None:
        """A write begins or has ended; those that no longer matter are forgotten."""
        now = self._clock()
        self._written.pop(collection, None)
        self._written[collection] = now
        # The oldest come first, as each write puts its collection last.
        while now - self._written[oldest := next(iter(self._written))] >= LAG_SECONDS:
            del self._written[oldest]

    def __len__(self) -> int:
        """The number of collections whose writes are remembered."""
        return len(self._written)

    def level(self, collection: str | None) -> str:
        """The level of a read that begins now."""
        if self._replicas > 1:
            return "Strong"
        written = self._written.get(collection or "")
        return "Session" if written is not None and self._clock() - written < LAG_SECONDS else "Bounded"
