"""How many rows pass a condition, remembered for seconds: what the way of a search is chosen by, never its answer."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from stores.milvus.calls import Calls
from stores.milvus.filters import EVERYTHING, Where

SECONDS = 5.0
MOST = 1024
"""Counts that are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Rows that pass a condition, rows in all, and those of them that a server has not sealed yet."""

    passing: int
    total: int
    unsealed: int


class Crowds:
    """Counts of some seconds ago at most, and never from before a write of this process."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: OrderedDict[tuple[str, Hashable], tuple[float, int]] = OrderedDict()
        self._writes = 0

    def of(self, calls: Calls, collection: str, where: Where) -> Crowd:
        """The crowd, counted where it is not remembered."""
        total = self._count(collection, "total", lambda: calls.visible(collection, EVERYTHING))
        passing = self.passing(calls, collection, where)
        sealed = self._count(collection, "sealed", lambda: calls.sealed(collection))
        return Crowd(passing=passing, total=total, unsealed=max(0, total - sealed))

    def passing(self, calls: Calls, collection: str, where: Where) -> int:
        """The rows that pass alone."""
        condition = (where.text, repr(where.parameters))
        return self._count(collection, condition, lambda: calls.visible(collection, where))

    def forget(self, collection: str) -> None:
        """The collection is written."""
        with self._lock:
            self._writes += 1
            for key in [key for key in self._counts if key[0] == collection]:
                del self._counts[key]

    def __len__(self) -> int:
        """The number of counts that are remembered."""
        return len(self._counts)

    def _count(self, collection: str, condition: Hashable, count: Callable[[], int]) -> int:
        key = (collection, condition)
        with self._lock:
            writes = self._writes
            found = self._counts.get(key)
        if found is not None and self._clock() - found[0] < SECONDS:
            return found[1]
        counted = count()
        with self._lock:
            if writes == self._writes:
                self._counts[key] = (self._clock(), counted)
                self._counts.move_to_end(key)
                while len(self._counts) > MOST:
                    self._counts.popitem(last=False)
        return counted
