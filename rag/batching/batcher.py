"""Collects the items of many calls into batches for one function."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from rag.batching.lane import Lane, open_lane
from rag.batching.selection import BatchLimits, choose_batch
from rag.core.errors import CapacityError, OverloadedError
from rag.core.types import Priority

Item = TypeVar("Item")
Result = TypeVar("Result")

_WINDOW = 8
"""How many batches' worth of waiting items are looked through for similar lengths."""
_SMOOTHING = 0.2
_LEAST_RETRY_SECONDS = 0.1


@dataclass(slots=True, kw_only=True, eq=False)
class _Call(Generic[Result]):
    """One ``submit``: its results as they arrive, and the future its caller waits for."""

    future: asyncio.Future[None]
    results: list[Result | None]
    missing: int

    def give(self, position: int, result: Result) -> None:
        self.results[position] = result
        self.missing -= 1
        if not self.missing and not self.future.done():
            self.future.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(slots=True, kw_only=True, eq=False)
class _Entry(Generic[Item, Result]):
    call: _Call[Result]
    position: int
    item: Item
    cost: int


@dataclass(slots=True, kw_only=True, eq=False)
class _Batch(Generic[Item, Result]):
    function: Callable[[Sequence[Item]], Sequence[Result]]
    entries: list[_Entry[Item, Result]]
    observe: Callable[[float, int], None]
    seconds: float = field(default=0.0)

    def run(self) -> Sequence[Result]:
        began = time.perf_counter()
        results = self.function([entry.item for entry in self.entries])
        if len(results) != len(self.entries):
            raise RuntimeError(f"{len(self.entries)} items gave {len(results)} results")
        self.seconds = time.perf_counter() - began
        return results

    def deliver(self, results: Sequence[Result]) -> None:
        self.observe(self.seconds, len(self.entries))
        for entry, result in zip(self.entries, results, strict=True):
            entry.call.give(entry.position, result)

    def fail(self, error: Exception) -> None:
        for entry in self.entries:
            entry.call.fail(error)


class Batcher(Generic[Item, Result]):
    """Runs ``function`` over batches of items on a lane; made by :func:`open_batcher`."""

    def __init__(
        self,
        function: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        cost: Callable[[Item], int],
        limits: BatchLimits,
        lane: Lane,
    ) -> None:
        self._function = function
        self._cost = cost
        self._limits = limits
        self._lane = lane
        self._queues: dict[Priority, deque[_Entry[Item, Result]]] = {priority: deque() for priority in Priority}
        self._seconds_an_item = 0.0
        self._closed = False

    @property
    def limits(self) -> BatchLimits:
        """The bounds it works within."""
        return self._limits

    def waiting(self, priority: Priority) -> int:
        """How many items of this priority wait for a batch."""
        return len(self._queues[priority])

    async def submit(self, items: Sequence[Item], *, priority: Priority) -> list[Result]:
        """One result an item, in order. All items are queued, or none.

        Raises ``OverloadedError`` (interactive) or ``CapacityError`` (bulk) with ``retry_after`` when the queue
        has no room for all of them, ``CapacityError`` when the batcher closes, and what ``function`` raised for
        a batch that held one of the items. A cancelled call leaves the queue at once.
        """
        if not items:
            return []
        call = self._enqueue(items, priority)
        try:
            await call.future
        except BaseException:
            self._drop(call, priority)
            raise
        return cast("list[Result]", call.results)

    def take(self, priority: Priority) -> _Batch[Item, Result] | None:
        """Remove the next batch from the queue; ``None`` when nothing waits. For the lane."""
        items, tokens = self._limits.of(priority)
        queue = self._queues[priority]
        window: list[_Entry[Item, Result]] = []
        while queue and len(window) < items * _WINDOW:
            entry = queue.popleft()
            if not entry.call.future.done():
                window.append(entry)
        if not window:
            return None
        chosen = choose_batch([entry.cost for entry in window], items=items, tokens=tokens)
        left = set(range(len(window))).difference(chosen)
        queue.extendleft(window[position] for position in sorted(left, reverse=True))
        entries = [window[position] for position in chosen]
        return _Batch(function=self._function, entries=entries, observe=self._observe)

    def close(self) -> None:
        """Fail what waits and refuse what comes."""
        self._closed = True
        for queue in self._queues.values():
            for entry in queue:
                entry.call.fail(CapacityError("the service is stopping"))
            queue.clear()

    def _enqueue(self, items: Sequence[Item], priority: Priority) -> _Call[Result]:
        if self._closed:
            raise CapacityError("the service is stopping")
        queue = self._queues[priority]
        if len(queue) + len(items) > self._limits.queue:
            raise self._refusal(priority)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call: _Call[Result] = _Call(future=future, results=[None] * len(items), missing=len(items))
        for position, item in enumerate(items):
            queue.append(_Entry(call=call, position=position, item=item, cost=self._cost(item)))
        self._lane.notify()
        return call

    def _refusal(self, priority: Priority) -> Exception:
        after = max(_LEAST_RETRY_SECONDS, self.waiting(priority) * self._seconds_an_item)
        kind = OverloadedError if priority is Priority.INTERACTIVE else CapacityError
        return kind("too much work waits for the model", retry_after=round(after, 2))

    def _drop(self, call: _Call[Result], priority: Priority) -> None:
        queue = self._queues[priority]
        kept = [entry for entry in queue if entry.call is not call]
        queue.clear()
        queue.extend(kept)

    def _observe(self, seconds: float, items: int) -> None:
        measured = seconds / items
        self._seconds_an_item += _SMOOTHING * (measured - self._seconds_an_item)


@asynccontextmanager
async def open_batcher(
    function: Callable[[Sequence[Item]], Sequence[Result]],
    *,
    cost: Callable[[Item], int],
    limits: BatchLimits,
    lane: Lane | None = None,
) -> AsyncIterator[Batcher[Item, Result]]:
    """A batcher over ``function``, which blocks and gives one result an item, in order.

    ``cost`` is an item's length in tokens. Without a ``lane`` it gets its own. Leaving fails what waits.
    """
    if lane is None:
        async with open_lane() as own, open_batcher(function, cost=cost, limits=limits, lane=own) as batcher:
            yield batcher
        return
    batcher = Batcher(function, cost=cost, limits=limits, lane=lane)
    lane.add(batcher)
    try:
        yield batcher
    finally:
        lane.remove(batcher)
        batcher.close()
