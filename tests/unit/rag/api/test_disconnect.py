"""Work that ends when its client leaves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from starlette.requests import Request
from starlette.types import Message

from rag.api.disconnect import while_connected
from rag.api.problems import ClientGoneError
from rag.api.shutdown import Shutdown
from rag.core.errors import CapacityError, StoreError


class Work:
    """Runs until it is cancelled."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.cancelled = False

    async def __call__(self) -> None:
        self.running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def request_of(shutdown: Shutdown, left: asyncio.Event) -> Request:
    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    app = SimpleNamespace(state=SimpleNamespace(shutdown=shutdown))
    return Request({"type": "http", "method": "POST", "headers": [], "app": app}, receive)


async def test_the_works_result_is_returned() -> None:
    async def work() -> int:
        return 7

    assert await while_connected(request_of(Shutdown(), asyncio.Event()), work()) == 7


async def test_the_works_error_is_raised() -> None:
    async def work() -> int:
        raise StoreError

    with pytest.raises(StoreError):
        await while_connected(request_of(Shutdown(), asyncio.Event()), work())


async def test_the_work_has_ended_when_the_client_is_gone() -> None:
    left, work = asyncio.Event(), Work()
    waiting = asyncio.create_task(while_connected(request_of(Shutdown(), left), work()))
    await work.running.wait()

    left.set()

    with pytest.raises(ClientGoneError):
        await waiting
    assert work.cancelled


async def test_the_work_has_ended_when_the_service_closes() -> None:
    shutdown, work = Shutdown(), Work()
    waiting = asyncio.create_task(while_connected(request_of(shutdown, asyncio.Event()), work()))
    await work.running.wait()

    shutdown.close()

    with pytest.raises(CapacityError):
        await waiting
    assert work.cancelled


async def test_cancelling_the_request_cancels_the_work() -> None:
    work = Work()
    waiting = asyncio.create_task(while_connected(request_of(Shutdown(), asyncio.Event()), work()))
    await work.running.wait()

    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.cancelled
