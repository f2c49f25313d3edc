"""A model that takes seconds to load: opened at once, there later.

Models load one at a time: importing large packages with circular imports from two threads at once can hand out
half-made modules, and reading weights changes settings of the whole process while it lasts.

Before the first one, OpenMP is told to let waiting threads sleep. They spin otherwise, and where more threads
want to run than there are cores (the models, Postgres, a generator on the same machine) a spinning thread keeps
off the core the very thread it waits for: on two busy cores a short query took 3.5 s, and 0.06 s with this.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from rag.core.errors import CapacityError

Loaded = TypeVar("Loaded")

_logger = logging.getLogger(__name__)
_loading = threading.Lock()


class Lazy(Generic[Loaded]):
    """What a thread is loading; made by :func:`open_lazy`."""

    def __init__(self, task: asyncio.Task[Loaded]) -> None:
        self._task = task

    @property
    def ready(self) -> bool:
        """Whether it is loaded."""
        return self._task.done() and not self._task.cancelled() and self._task.exception() is None

    @property
    def error(self) -> BaseException | None:
        """Why it could not be loaded; ``None`` while it loads and when it is ready."""
        return self._task.exception() if self._task.done() and not self._task.cancelled() else None

    @property
    def value(self) -> Loaded:
        """The loaded thing; only after ``get`` returned once. May be read in any thread."""
        return self._task.result()

    async def get(self) -> Loaded:
        """Wait until it is loaded. Raises what loading raised, or ``CapacityError`` when it is closed first.

        Waiting has no limit of its own: the caller's deadline ends it, and loading goes on.
        """
        await asyncio.wait({self._task})
        if self._task.cancelled():
            raise CapacityError("the service is stopping")
        return self._task.result()


@asynccontextmanager
async def open_lazy(load: Callable[[], Loaded], *, name: str) -> AsyncIterator[Lazy[Loaded]]:
    """Start ``load`` in a thread and return at once; a failure is logged once and kept for the callers."""
    task = asyncio.create_task(asyncio.to_thread(_load, load), name=f"load {name}")
    task.add_done_callback(lambda done: _report(done, name))
    try:
        yield Lazy(task)
    finally:
        task.cancel()
        await asyncio.wait({task})


def _load(load: Callable[[], Loaded]) -> Loaded:
    with _loading:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        return load()


def _report(task: asyncio.Task[Loaded], name: str) -> None:
    if task.cancelled():
        return
    error = task.exception()
    if error is None:
        _logger.info("model loaded", extra={"action": "load_model", "model": name})
    else:
        _logger.error("model not loaded", extra={"action": "load_model", "model": name}, exc_info=error)
