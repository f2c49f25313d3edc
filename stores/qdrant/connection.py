"""One connection to the host process, with many calls in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

from stores.qdrant import wire


class LostError(ConnectionError):
    """The connection ended before the answer came."""


class Caller:
    """Connects when it is first used, and again after a loss. ``socket`` says where, each time."""

    def __init__(self, socket: Callable[[], Path]) -> None:
        self._socket = socket
        self._connecting = asyncio.Lock()
        self._protocol: _Answers | None = None
        self._last_call = 0

    async def call(self, header: wire.Header, body: bytes = b"", *, deadline: float) -> tuple[wire.Header, bytes]:
        """The answer's header and body, by ``deadline`` of the loop's clock, else ``TimeoutError``.

        Raises ``OSError`` or ``LostError``; ``FrameError`` for a request too large.
        """
        protocol = self._protocol
        if protocol is None or protocol.lost:
            async with asyncio.timeout_at(deadline):
                protocol = await self._connected()
        self._last_call += 1
        return await protocol.ask(self._last_call, header, body, deadline=deadline)

    def close(self) -> None:
        """Hang up; calls in flight raise ``LostError``."""
        if self._protocol:
            self._protocol.close()

    async def _connected(self) -> _Answers:
        async with self._connecting:
            if self._protocol is None or self._protocol.lost:
                loop = asyncio.get_running_loop()
                _, self._protocol = await loop.create_unix_connection(_Answers, path=str(self._socket()))
            return self._protocol


class _Answers(asyncio.Protocol):
    """Hands each answer to the call that waits for it; one that nobody waits for any more is dropped."""

    def __init__(self) -> None:
        self.lost = False
        self._reader = wire.FrameReader()
        self._waiting: dict[int, asyncio.Future[tuple[wire.Header, bytes]]] = {}
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The faster event loop's transport has all of its methods and is no subclass of it.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._writable.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(LostError(f"the host process hung up: {exc or 'it ended'}"))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        try:
            for header, body in self._reader.feed(data):
                waiting = self._waiting.get(header.get("call", 0))
                if waiting and not waiting.done():
                    waiting.set_result((header, body))
        except wire.FrameError:
            self.close()

    async def ask(self, call: int, header: wire.Header, body: bytes, *, deadline: float) -> tuple[wire.Header, bytes]:
        framed = wire.frame({**header, "call": call}, body)
        if not self._writable.is_set():
            async with asyncio.timeout_at(deadline):
                await self._writable.wait()
        if self.lost or self._transport is None:
            raise LostError("the host process hung up")
        loop = asyncio.get_running_loop()
        waiting = self._waiting[call] = loop.create_future()
        # A timer costs a third of a scope of asyncio.timeout.
        timer = loop.call_at(deadline, _expire, waiting)
        try:
            self._transport.write(framed)
            answer: tuple[wire.Header, bytes] = await waiting
            return answer
        finally:
            timer.cancel()
            del self._waiting[call]

    def close(self) -> None:
        if self._transport:
            self._transport.close()


def _expire(waiting: asyncio.Future[tuple[wire.Header, bytes]]) -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())
