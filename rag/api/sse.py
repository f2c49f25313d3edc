"""Server-sent events: a stream that always ends in an event, and ends its source when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rag.api.disconnect import disconnected, end
from rag.api.problems import ClientGoneError, problem_of
from rag.api.shutdown import Shutdown, shutting_down

KEEP_ALIVE_SECONDS = 15.0

_KEEP_ALIVE = b": keep-alive\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def encode_event(event: str, data: Any) -> bytes:
    """One event on the wire; JSON holds no line break, so one ``data`` line carries it."""
    return b"event: " + event.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


class EventStream(Response):
    """Sends the events of ``source``, pairs of name and data, while the client stays.

    An error before the first event is raised, and so becomes an ordinary problem response; a later one is
    sent as the event ``error``. ``source`` is closed in the task that iterated it, whatever happens.
    """

    def __init__(
        self,
        source: AsyncGenerator[tuple[str, Any], None],
        *,
        shutdown: Shutdown,
        keep_alive: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        super().__init__()
        self._source = source
        self._shutdown = shutdown
        self._keep_alive = keep_alive
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the stream to its end. Raises what ``source`` raises before its first event."""
        pump = asyncio.create_task(self._pump(send), name="event stream")
        gone = asyncio.create_task(disconnected(receive), name="disconnect watch")
        try:
            error = await self._supervise(pump, gone, send)
        finally:
            await end(pump, gone)
        if error is not None:
            await self._report(error, scope, send)

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._source) as events:
            async for name, data in events:
                await self._send(send, encode_event(name, data))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _supervise(self, pump: asyncio.Task[None], gone: asyncio.Task[None], send: Send) -> Exception | None:
        watched = {pump, gone, self._shutdown.closing}
        while True:
            done, _ = await asyncio.wait(watched, timeout=self._keep_alive, return_when=asyncio.FIRST_COMPLETED)
            if pump in done:
                error = pump.exception()
                if isinstance(error, Exception) or error is None:
                    return error
                raise error
            if gone in done:
                return ClientGoneError()
            if done:
                return shutting_down()
            if self._started:
                await send({"type": "http.response.body", "body": _KEEP_ALIVE, "more_body": True})

    async def _report(self, error: Exception, scope: Scope, send: Send) -> None:
        if not self._started:
            raise error
        body = encode_event("error", problem_of(error).document(scope["state"]["request_id"]))
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _send(self, send: Send, body: bytes) -> None:
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": body, "more_body": True})
