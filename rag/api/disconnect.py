"""Work that ends when its client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import Receive

from rag.api.problems import ClientGoneError
from rag.api.shutdown import Shutdown, shutting_down

T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` as long as somebody waits for it; the request's body must have been read.

    Raises ``ClientGoneError`` when the client leaves and ``CapacityError`` when the service closes; the work
    has been cancelled and has ended by then.
    """
    shutdown: Shutdown = request.app.state.shutdown
    task = asyncio.create_task(work, name="request work")
    gone = asyncio.create_task(disconnected(request.receive), name="disconnect watch")
    try:
        watched: set[asyncio.Future[Any]] = {task, gone, shutdown.closing}
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError if gone.done() else shutting_down()
    finally:
        await end(task, gone)


async def disconnected(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and wait until each has ended; what they raise is theirs."""
    running = _cancelled(tasks)
    if running:
        await asyncio.wait(running)


def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    return running
