"""Stops work that lost its right: a document deleted, replaced, retried or cancelled while it is parsed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from rag.core.catalog import Attempt
from rag.core.errors import SupersededError, UpstreamError

_logger = logging.getLogger(__name__)

WATCH_SECONDS = 0.5

T = TypeVar("T")


class RightsCatalog(Protocol):
    """The slice of the catalog that knows who has the right to what."""

    async def held(self, attempts: Sequence[Attempt]) -> set[int]:
        """The generations of those attempts that have their right."""
        ...


class Watch:
    """Asks the catalog for all running attempts at once. Made by :func:`open_watch`, which owns the task."""

    def __init__(self, catalog: RightsCatalog) -> None:
        self._catalog = catalog
        self._running: dict[int, tuple[Attempt, asyncio.Task[Any]]] = {}
        self._busy = asyncio.Event()

    async def over(self, attempt: Attempt, work: Coroutine[Any, Any, T]) -> T:
        """Do the work; raises ``SupersededError``, with the work cancelled, soon after the right was lost.

        To be used up to the publish only: with it the claim ends, as if the right were lost.
        """
        task = asyncio.create_task(work, name="attempt")
        self._running[attempt.generation] = (attempt, task)
        self._busy.set()
        try:
            await asyncio.wait((task,))
        finally:
            lost = self._running.pop(attempt.generation, None) is None
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
        if task.cancelled() and lost:
            raise SupersededError
        return task.result()

    async def run(self, *, interval: float) -> None:
        """Look every ``interval`` seconds while there is something to look at."""
        while True:
            await self._busy.wait()
            await asyncio.sleep(interval)
            try:
                await self._look()
            except UpstreamError:
                _logger.warning("the rights of running attempts are unknown", extra={"action": "watch_failed"})
            if not self._running:
                self._busy.clear()

    async def _look(self) -> None:
        looked_at = dict(self._running)
        if not looked_at:
            return
        held = await self._catalog.held([attempt for attempt, _ in looked_at.values()])
        for generation in looked_at.keys() - held:
            # Gone from the table, so that its caller knows why it was cancelled.
            if self._running.pop(generation, None) is not None:
                looked_at[generation][1].cancel()


@asynccontextmanager
async def open_watch(catalog: RightsCatalog, *, interval: float = WATCH_SECONDS) -> AsyncIterator[Watch]:
    """A watch that looks as long as it is open."""
    watch = Watch(catalog)
    looking = asyncio.create_task(watch.run(interval=interval), name="watch")
    try:
        yield watch
    finally:
        looking.cancel()
        await asyncio.wait((looking,))
