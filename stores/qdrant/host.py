"""The host process of the embedded engine: one owner of its folder, shared over a unix socket.

``python -m stores.qdrant.host --folder FOLDER --socket PATH [--indexing-threshold ROWS]`` serves until it is asked
to end. All calls into the engine run on the event loop: they hold the interpreter's lock anyway, and so each is
atomic. Long ones are cut into slices, between which others are served.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import uvloop

from rag.core.errors import AnchorageError, CollectionNotFoundError, StorageFullError, StoreError
from rag.core.records import CollectionSpec
from stores.qdrant import edge, wire
from stores.qdrant.hosted import Collections, prepare

SLICE_ROWS = 256
MAX_WAITING = 64
"""Requests of one connection that may wait for a lock or a build before no more are read from it."""
Answer = tuple[wire.Header, bytes]
_FULL = "No space left on device"
_logger = logging.getLogger(__name__)


class Requests:
    """What each operation does; reads answer at once, writes and waits in their turn."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections
        self.reads: dict[str, Callable[[wire.Header, bytes], Answer]] = {
            "ping": lambda _header, _body: ({}, b""),
            "spec": self._spec,
            "count": self._count,
            "scroll": self._scroll,
            "query": self._query,
            "stats": self._stats,
        }
        self.writes: dict[str, Callable[[wire.Header, bytes], Awaitable[wire.Header | None]]] = {
            "create": self._create,
            "upsert": self._upsert,
            "delete": self._delete,
            "set_payload": self._set_payload,
            "drop": lambda header, _body: self._collections.drop(header["collection"]),
            "wait_indexed": lambda header, _body: self._collections.wait_indexed(header["collection"]),
        }

    async def _create(self, header: wire.Header, _body: bytes) -> wire.Header:
        spec = CollectionSpec.from_json(header["spec"])
        return {"created": await self._collections.create(header["collection"], spec)}

    def _spec(self, header: wire.Header, _body: bytes) -> Answer:
        return {"spec": self._collections.get(header["collection"]).collection.spec.to_json()}, b""

    def _count(self, header: wire.Header, _body: bytes) -> Answer:
        return {"count": self._collections.get(header["collection"]).collection.count(header["filter"])}, b""

    def _scroll(self, header: wire.Header, _body: bytes) -> Answer:
        collection = self._collections.get(header["collection"]).collection
        after = UUID(header["after"]) if header["after"] else None
        records, following = collection.scroll(header["filter"], after=after, limit=header["limit"])
        points = [edge.parts_of(record) for record in records]
        return {
            "points": [[payload, terms] for payload, terms, _ in points],
            "following": str(following) if following else None,
        }, b"".join(vector for _, _, vector in points)

    def _query(self, header: wire.Header, body: bytes) -> Answer:
        found = self._collections.get(header["collection"]).collection.query(header, body)
        return {"found": [[[point.score, point.payload] for point in points] for points in found]}, b""

    def _stats(self, header: wire.Header, _body: bytes) -> Answer:
        stats = self._collections.stats(header["collection"])
        return {"rows": stats.rows, "indexed": stats.indexed, "bytes": stats.bytes}, b""

    async def _upsert(self, header: wire.Header, body: bytes) -> None:
        rows = len(header["ids"])
        vectors = wire.vectors_of(body, rows)
        name = header["collection"]
        async with self._collections.writing(name, self._collections.get(name)) as collection:
            for first in range(0, rows, SLICE_ROWS):
                collection.upsert(header, vectors, first, min(first + SLICE_ROWS, rows))
                await asyncio.sleep(0)

    async def _delete(self, header: wire.Header, _body: bytes) -> None:
        name = header["collection"]
        async with self._collections.writing(name, self._collections.get(name)) as collection:
            collection.delete(header["filter"])

    async def _set_payload(self, header: wire.Header, _body: bytes) -> None:
        name = header["collection"]
        async with self._collections.writing(name, self._collections.get(name)) as collection:
            collection.set_payload(header["filter"], header["payload"])


class Connection(asyncio.Protocol):
    """One client. Its requests are answered as they are done, not in the order of arrival."""

    def __init__(self, requests: Requests, connections: set[Connection]) -> None:
        self._requests = requests
        self._connections = connections
        self._reader = wire.FrameReader()
        self._waiting: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.Protocol``."""
        # The faster event loop's transport has all of its methods and is no subclass of it.
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See ``asyncio.Protocol``; what was begun is ended all the same."""
        del exc
        self._connections.discard(self)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        try:
            for header, body in self._reader.feed(data):
                self._serve(header, body)
        except wire.FrameError:
            _logger.warning("a connection sent what is no frame", extra={"action": "frame_refused"})
            self.close()

    def close(self) -> None:
        """Hang up."""
        if self._transport:
            self._transport.close()

    async def finish(self) -> None:
        """Wait for what was begun."""
        if self._waiting:
            await asyncio.wait(self._waiting)

    def _serve(self, header: wire.Header, body: bytes) -> None:
        operation = header.get("operation", "")
        if read := self._requests.reads.get(operation):
            self._answer(header, lambda: read(header, body))
        elif write := self._requests.writes.get(operation):
            task = asyncio.create_task(self._write(header, write(header, body)))
            self._waiting.add(task)
            task.add_done_callback(self._done)
            if len(self._waiting) >= MAX_WAITING and self._transport:
                self._transport.pause_reading()
        else:
            self._send(header, {"error": StoreError.code, "message": f"unknown operation {operation}"})

    def _done(self, task: asyncio.Task[None]) -> None:
        self._waiting.discard(task)
        if self._transport:
            self._transport.resume_reading()

    async def _write(self, header: wire.Header, write: Awaitable[wire.Header | None]) -> None:
        try:
            answer = await write
        except Exception as exc:  # noqa: BLE001  the engine has no class of its own for its errors
            self._send(header, _refusal(exc))
        else:
            self._send(header, answer or {})

    def _answer(self, header: wire.Header, read: Callable[[], Answer]) -> None:
        try:
            answer, body = read()
        except Exception as exc:  # noqa: BLE001  the engine has no class of its own for its errors
            self._send(header, _refusal(exc))
        else:
            self._send(header, answer, body)

    def _send(self, header: wire.Header, answer: wire.Header, body: bytes = b"") -> None:
        if self._transport is None:
            return
        try:
            framed = wire.frame({"call": header.get("call"), **answer}, body)
        except wire.FrameError as exc:
            framed = wire.frame({"call": header.get("call"), **_refusal(exc)})
        self._transport.write(framed)


async def serve(folder: Path, socket: Path, *, threshold: int) -> None:
    """Serve until the process is asked to end by SIGTERM or SIGINT; then what was begun is ended and flushed."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    prepare(folder)
    collections = Collections(folder, threshold=threshold)
    connections: set[Connection] = set()
    requests = Requests(collections)
    server = await loop.create_unix_server(lambda: Connection(requests, connections), path=str(socket))
    tending = asyncio.create_task(collections.tend(), name="tending of collections")
    try:
        await asyncio.wait({tending, asyncio.create_task(ended.wait())}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        server.close()
        await collections.stop_building()
        for connection in list(connections):
            await connection.finish()
            connection.close()
        tending.cancel()
        await collections.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """The host process."""
    parser = argparse.ArgumentParser(prog="stores.qdrant.host")
    parser.add_argument("--folder", type=Path, required=True, help="where the collections lie")
    parser.add_argument("--socket", type=Path, required=True, help="where to listen")
    parser.add_argument("--indexing-threshold", type=int, default=10_000, help="rows from which an index is built")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    uvloop.run(serve(options.folder, options.socket, threshold=options.indexing_threshold))


def _refusal(exc: Exception) -> dict[str, Any]:
    if isinstance(exc, CollectionNotFoundError):
        return {"error": exc.code, "message": exc.message}
    kind = StorageFullError if _FULL in str(exc) else StoreError
    if not isinstance(exc, AnchorageError):
        _logger.error("a request failed", exc_info=exc, extra={"action": "request_failed"})
    return {"error": kind.code, "message": f"{type(exc).__name__}: {exc}"}


if __name__ == "__main__":
    main()
