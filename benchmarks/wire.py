"""Counts SQL round trips on the wire: a proxy before Postgres that reads the client's message frames.

A client waits once for every Sync, simple Query or start-up packet (PostgreSQL protocol 3.0, "Message
Flow"), however many statements a pipeline carries in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

SYNC, QUERY, HEADER = ord("S"), ord("Q"), 5
CHUNK = 65536


@dataclass(slots=True)
class Frames:
    """Reads one client's stream, whose first packet has no type byte, and counts the waits."""

    waits: int = 0
    _started: bool = False
    _pending: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """Take the next bytes, wherever they were cut."""
        self._pending += data
        while (size := self._next_size()) is not None and len(self._pending) >= size:
            if self._started and self._pending[0] in (SYNC, QUERY):
                self.waits += 1
            self._started = True
            del self._pending[:size]

    def _next_size(self) -> int | None:
        typed = 1 if self._started else 0
        if len(self._pending) < typed + 4:
            return None
        return typed + int.from_bytes(self._pending[typed : typed + 4], "big")


@dataclass(slots=True)
class CountingProxy:
    """A unix socket that forwards to another one; ``round_trips`` counts the waits of all clients."""

    upstream: Path
    clients: list[Frames] = field(default_factory=list)

    @property
    def round_trips(self) -> int:
        """Waits so far."""
        return sum(client.waits for client in self.clients)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one client until either side ends."""
        up_reader, up_writer = await asyncio.open_unix_connection(str(self.upstream))
        frames = Frames()
        self.clients.append(frames)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_forward(reader, up_writer, frames), name="to postgres")
                group.create_task(_forward(up_reader, writer, None), name="from postgres")
        finally:
            for each in (writer, up_writer):
                each.close()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames | None) -> None:
    while data := await reader.read(CHUNK):
        if frames is not None:
            frames.feed(data)
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


@asynccontextmanager
async def counting_proxy(folder: Path, upstream: Path) -> AsyncIterator[CountingProxy]:
    """Listen as ``folder/.s.PGSQL.5432`` before the Postgres socket ``upstream``."""
    proxy = CountingProxy(upstream)
    server = await asyncio.start_unix_server(proxy.serve, str(folder / ".s.PGSQL.5432"))
    try:
        yield proxy
    finally:
        server.close()
