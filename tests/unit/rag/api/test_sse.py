"""Streams of events over a scripted connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.types import Message

from rag.api.problems import ClientGoneError
from rag.api.shutdown import Shutdown
from rag.api.sse import EventStream, encode_event
from rag.core.errors import CapacityError, GenerationError

Event = tuple[str, Any]


class Connection:
    """A client: ``leave`` disconnects, ``sent`` is what it got."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.kept_alive = asyncio.Event()
        self.sent: list[Message] = []

    def leave(self) -> None:
        self.left.set()

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if message.get("body") == b": keep-alive\n\n":
            self.kept_alive.set()

    @property
    def body(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent).decode()

    async def run(self, source: AsyncGenerator[Event, None], shutdown: Shutdown, *, keep_alive: float = 15.0) -> None:
        scope = {"type": "http", "state": {"request_id": "r-1"}}
        await EventStream(source, shutdown=shutdown, keep_alive=keep_alive)(scope, self.receive, self.send)


class Source:
    """Events with a gate before each one that is called ``wait``; ``closed`` is set when it has ended."""

    def __init__(self, *script: Event | Exception) -> None:
        self._script = script
        self.waiting = asyncio.Event()
        self.closed = asyncio.Event()

    async def __call__(self) -> AsyncGenerator[Event, None]:
        try:
            for step in self._script:
                if isinstance(step, Exception):
                    raise step
                if step[0] == "wait":
                    self.waiting.set()
                    await asyncio.Event().wait()
                yield step
        finally:
            self.closed.set()


async def test_events_are_sent_in_order_and_the_stream_ends() -> None:
    connection, source = Connection(), Source(("delta", {"text": "一\n二"}), ("done", {}))

    await connection.run(source(), Shutdown())

    headers = dict(connection.sent[0]["headers"])
    assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert headers[b"cache-control"] == b"no-store"
    assert connection.body == 'event: delta\ndata: {"text":"一\\n二"}\n\nevent: done\ndata: {}\n\n'
    assert connection.sent[-1]["more_body"] is False


async def test_an_error_before_the_first_event_is_an_ordinary_response() -> None:
    connection, source = Connection(), Source(GenerationError())

    with pytest.raises(GenerationError):
        await connection.run(source(), Shutdown())

    assert connection.sent == []


async def test_a_later_error_is_the_last_event() -> None:
    connection, source = Connection(), Source(("delta", {"text": "a"}), GenerationError("it broke"))

    await connection.run(source(), Shutdown())

    last = connection.body.split("\n\n")[-2]
    assert last.startswith("event: error\n")
    problem = json.loads(last.partition("data: ")[2])
    assert (problem["code"], problem["request_id"]) == ("generation_unavailable", "r-1")
    assert connection.sent[-1]["more_body"] is False


async def test_an_unexpected_later_error_tells_nothing_of_itself() -> None:
    connection, source = Connection(), Source(("delta", {"text": "a"}), RuntimeError("secret"))

    await connection.run(source(), Shutdown())

    assert '"code":"internal"' in connection.body
    assert "secret" not in connection.body


async def test_a_client_that_leaves_ends_the_source() -> None:
    connection, source = Connection(), Source(("delta", {"text": "a"}), ("wait", None))
    running = asyncio.create_task(connection.run(source(), Shutdown()))
    await source.waiting.wait()

    connection.leave()
    await running

    assert source.closed.is_set()


async def test_a_client_that_leaves_before_the_first_event_ends_the_source() -> None:
    connection, source = Connection(), Source(("wait", None))
    running = asyncio.create_task(connection.run(source(), Shutdown()))
    await source.waiting.wait()

    connection.leave()

    with pytest.raises(ClientGoneError):
        await running
    assert source.closed.is_set()


async def test_a_service_that_closes_ends_the_stream_with_an_error_event() -> None:
    connection, source, shutdown = Connection(), Source(("delta", {"text": "a"}), ("wait", None)), Shutdown()
    running = asyncio.create_task(connection.run(source(), shutdown))
    await source.waiting.wait()

    shutdown.close()
    await running

    assert source.closed.is_set()
    assert f'"code":"{CapacityError.code}"' in connection.body


async def test_a_quiet_stream_is_kept_alive_by_comments() -> None:
    connection, source = Connection(), Source(("delta", {"text": "a"}), ("wait", None))
    running = asyncio.create_task(connection.run(source(), Shutdown(), keep_alive=0.01))

    async with asyncio.timeout(5):
        await connection.kept_alive.wait()

    connection.leave()
    await running


async def test_a_cancelled_request_ends_the_source() -> None:
    connection, source = Connection(), Source(("delta", {"text": "a"}), ("wait", None))
    running = asyncio.create_task(connection.run(source(), Shutdown()))
    await source.waiting.wait()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert source.closed.is_set()


def test_an_event_is_one_line_of_json() -> None:
    assert encode_event("delta", {"text": "a\nb"}) == b'event: delta\ndata: {"text":"a\\nb"}\n\n'
