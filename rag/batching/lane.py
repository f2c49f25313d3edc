"""One thread that computes, and the order in which batches get it.

Models that share processor cores share a lane: each forward pass wants every core, so two at once do no more work
than one after the other, and the order can no longer be chosen. Measured once on two busy cores with bulk
embedding beside: reranking 20 pairs took 1.7 s in turn and 2.2 s at once, at the same bulk rate. The price is
that a short query waits for the batch that runs (0.56 s against 0.27 s there), which is why bulk batches are small.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Protocol

from rag.core.errors import CapacityError
from rag.core.types import Priority

BULK_AFTER = 8
"""Interactive batches in a row after which a waiting bulk batch gets its turn."""

_DRAIN_SECONDS = 30.0


class Work(Protocol):
    """One batch."""

    def run(self) -> Any:
        """Compute; called once, in the lane's thread."""
        ...

    def deliver(self, results: Any) -> None:
        """Hand out what ``run`` returned; called on the loop."""
        ...

    def fail(self, error: Exception) -> None:
        """Hand out the failure; called on the loop."""
        ...


class Source(Protocol):
    """A queue that a lane serves."""

    def waiting(self, priority: Priority) -> int:
        """How many items wait."""
        ...

    def take(self, priority: Priority) -> Work | None:
        """Remove the next batch from the queue; ``None`` when nothing waits."""
        ...


class Lane:
    """Runs the batches of its sources one at a time.

    Work-conserving: an idle lane takes a single item at once, nothing waits for company. Interactive batches
    strictly go before bulk ones, except that after ``BULK_AFTER`` of them in a row while bulk work waited, one
    bulk batch runs. Sources of the same priority take turns.
    """

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._wake = asyncio.Event()
        self._passed_over = 0
        self._closing = False

    def add(self, source: Source) -> None:
        """Serve this queue from now on."""
        self._sources.append(source)

    def remove(self, source: Source) -> None:
        """Serve it no longer; a batch of it that runs is still delivered."""
        self._sources.remove(source)

    def notify(self) -> None:
        """Something waits."""
        self._wake.set()

    def close(self) -> None:
        """Stop after the batch that runs."""
        self._closing = True
        self._wake.set()

    async def serve(self, executor: ThreadPoolExecutor) -> None:
        """Run batches until closed; the opener owns the task."""
        while not self._closing:
            work = self._next()
            if work is None:
                self._wake.clear()
                await self._wake.wait()
            else:
                await _compute(work, executor)

    def _next(self) -> Work | None:
        bulk_first = self._passed_over >= BULK_AFTER
        for priority in (Priority.BULK, Priority.INTERACTIVE) if bulk_first else (Priority.INTERACTIVE, Priority.BULK):
            work = self._take(priority)
            if work is not None:
                self._count(priority)
                return work
        return None

    def _take(self, priority: Priority) -> Work | None:
        for source in self._sources:
            work = source.take(priority)
            if work is not None:
                self._sources.remove(source)
                self._sources.append(source)
                return work
        return None

    def _count(self, priority: Priority) -> None:
        bulk_waits = any(source.waiting(Priority.BULK) for source in self._sources)
        self._passed_over = self._passed_over + 1 if priority is Priority.INTERACTIVE and bulk_waits else 0


async def _compute(work: Work, executor: ThreadPoolExecutor) -> None:
    try:
        results = await asyncio.get_running_loop().run_in_executor(executor, work.run)
    except asyncio.CancelledError:
        work.fail(CapacityError("the service is stopping"))
        raise
    except Exception as error:  # noqa: BLE001  whatever it is, it belongs to the callers of this batch
        work.fail(error)
    else:
        work.deliver(results)


@asynccontextmanager
async def open_lane(name: str = "models") -> AsyncIterator[Lane]:
    """A lane with its own thread; leaving waits for the batch that runs, but at most half a minute."""
    lane = Lane()
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
    task = asyncio.create_task(lane.serve(executor), name=f"lane {name}")
    try:
        yield lane
    finally:
        lane.close()
        try:
            await asyncio.wait({task}, timeout=_DRAIN_SECONDS)
        finally:
            task.cancel()
            executor.shutdown(wait=False, cancel_futures=True)
