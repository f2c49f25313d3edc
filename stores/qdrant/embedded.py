"""The engine in its host process: the client's side of the socket."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import orjson

from rag.core.errors import AnchorageError, CollectionNotFoundError, MissingExtraError, StorageFullError, StoreError
from rag.core.records import Capabilities, CollectionSpec, Feature, Quantization, StoreStats
from stores.hosting import attach_or_own
from stores.qdrant import wire
from stores.qdrant.batches import requests_of
from stores.qdrant.connection import Caller
from stores.qdrant.engine import Condition, Effort, Found, Payload, Points, Query, Scored
from stores.qdrant.options import EmbeddedOptions

_CAPABILITIES = Capabilities(features=frozenset(Feature), quantizations=frozenset(Quantization))
_ERRORS: dict[str, type[AnchorageError]] = {
    each.code: each for each in (CollectionNotFoundError, StorageFullError, StoreError)
}
_RETRY_SECONDS = 0.1
_PING_SECONDS = 5.0
_IN_THREAD_FROM = 16
"""Rows from which the encoding of an upsert leaves the loop."""


@asynccontextmanager
async def open_embedded(options: EmbeddedOptions) -> AsyncIterator[EmbeddedEngine]:
    """Share the folder's host process, or start it; or use the one behind ``options.socket``."""
    if options.folder is None:
        async with _callers(lambda: options.socket or Path(), options) as callers:
            yield EmbeddedEngine(callers, timeout=options.timeout)
        return
    if find_spec("qdrant_edge") is None:
        raise MissingExtraError("the embedded Qdrant needs the package qdrant-edge-py")
    async with (
        attach_or_own(
            options.folder,
            name="qdrant",
            command=lambda socket: host_command(options.folder or Path(), socket, options.indexing_threshold),
            ping=ping,
        ) as hosted,
        _callers(lambda: hosted.socket, options) as callers,
    ):
        yield EmbeddedEngine(callers, timeout=options.timeout)


def host_command(folder: Path, socket: Path, threshold: int) -> list[str]:
    """The command line of the host process; the collections lie in a folder of their own."""
    options = ["--folder", str(folder / "collections"), "--socket", str(socket), "--indexing-threshold", str(threshold)]
    return [sys.executable, "-m", "stores.qdrant.host", *options]


async def ping(socket: Path) -> None:
    """Raises ``OSError`` unless a host process answers on the socket."""
    caller = Caller(lambda: socket)
    try:
        await caller.call({"operation": "ping"}, deadline=asyncio.get_running_loop().time() + _PING_SECONDS)
    finally:
        caller.close()


@asynccontextmanager
async def _callers(socket: Callable[[], Path], options: EmbeddedOptions) -> AsyncIterator[list[Caller]]:
    callers = [Caller(socket) for _ in range(options.pool_size)]
    try:
        yield callers
    finally:
        for caller in callers:
            caller.close()


class EmbeddedEngine:
    """An ``Engine``. Every call may be made twice, so one that a lost connection cut off is made again in time."""

    capabilities = _CAPABILITIES

    def __init__(self, callers: Sequence[Caller], *, timeout: float) -> None:
        self._callers = callers
        self._timeout = timeout
        self._turn = 0

    async def create(self, collection: str, spec: CollectionSpec) -> bool:
        """See ``Engine``."""
        answer, _ = await self._call({"operation": "create", "collection": collection, "spec": spec.to_json()})
        return bool(answer["created"])

    async def drop(self, collection: str) -> None:
        """See ``Engine``."""
        await self._call({"operation": "drop", "collection": collection})

    async def spec(self, collection: str) -> CollectionSpec:
        """See ``Engine``."""
        answer, _ = await self._call({"operation": "spec", "collection": collection})
        return CollectionSpec.from_json(answer["spec"])

    async def upsert(self, collection: str, points: Points) -> None:
        """See ``Engine``; it has reached the log, which outlives the process, but perhaps not the disk."""
        for part in requests_of(points):
            if len(part) < _IN_THREAD_FROM:
                header, body = _upsert_request(collection, part)
            else:
                header, body = await asyncio.to_thread(_upsert_request, collection, part)
            await self._call(header, body)

    async def set_payload(self, collection: str, condition: Condition, payload: Payload) -> None:
        """See ``Engine``."""
        request = {"collection": collection, "filter": condition, "payload": payload}
        await self._call({"operation": "set_payload", **request})

    async def delete(self, collection: str, condition: Condition) -> None:
        """See ``Engine``."""
        await self._call({"operation": "delete", "collection": collection, "filter": condition})

    async def count(self, collection: str, condition: Condition) -> int:
        """See ``Engine``."""
        answer, _ = await self._call({"operation": "count", "collection": collection, "filter": condition})
        return int(answer["count"])

    async def scroll(
        self, collection: str, condition: Condition, *, after: UUID | None, limit: int
    ) -> tuple[list[Found], UUID | None]:
        """See ``Engine``."""
        request = {
            "collection": collection,
            "filter": condition,
            "limit": limit,
            "after": str(after) if after else None,
        }
        answer, body = await self._call({"operation": "scroll", **request})
        vectors = wire.vectors_of(body, len(answer["points"]))
        found = [
            Found(payload=payload, vector=vector, terms=wire.terms_of(terms))
            for (payload, terms), vector in zip(answer["points"], vectors, strict=True)
        ]
        return found, UUID(answer["following"]) if answer["following"] else None

    async def query(
        self, collection: str, queries: Sequence[Query], *, condition: Condition, limit: int, effort: Effort
    ) -> list[list[Scored]]:
        """See ``Engine``; queries by vector come before those by terms."""
        vectors = [query.vector for query in queries if query.vector is not None]
        answer, _ = await self._call(
            {
                "operation": "query",
                "collection": collection,
                "filter": orjson.dumps(condition).decode(),
                "limit": limit,
                "ef": effort.ef,
                "exact": effort.exact,
                "rescore": effort.rescore,
                "dense": len(vectors),
                "sparse": [wire.sparse(query.terms) for query in queries if query.vector is None],
            },
            b"".join(np.asarray(vector, dtype="<f4").tobytes() for vector in vectors),
        )
        return [[(score, payload) for score, payload in points] for points in answer["found"]]

    async def wait_indexed(self, collection: str, *, timeout: float) -> None:
        """See ``Engine``."""
        await self._call({"operation": "wait_indexed", "collection": collection}, timeout=timeout)

    async def stats(self, collection: str) -> StoreStats:
        """See ``Engine``."""
        answer, _ = await self._call({"operation": "stats", "collection": collection})
        return StoreStats(rows=answer["rows"], indexed=answer["indexed"], bytes=answer["bytes"])

    async def ping(self) -> None:
        """See ``Engine``."""
        await self._call({"operation": "ping"})

    async def _call(
        self, header: wire.Header, body: bytes = b"", *, timeout: float | None = None
    ) -> tuple[wire.Header, bytes]:
        seconds = timeout or self._timeout
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            answer, content = await self._answered(header, body, deadline)
        except TimeoutError:
            raise StoreError(f"the embedded Qdrant did not answer {header['operation']} within {seconds:g} s") from None
        except wire.FrameError as exc:
            raise StoreError(f"the embedded Qdrant takes no such request: {exc}") from exc
        if error := answer.get("error"):
            raise _ERRORS.get(error, StoreError)(answer["message"])
        return answer, content

    async def _answered(self, header: wire.Header, body: bytes, deadline: float) -> tuple[wire.Header, bytes]:
        while True:
            self._turn = (self._turn + 1) % len(self._callers)
            try:
                return await self._callers[self._turn].call(header, body, deadline=deadline)
            except TimeoutError:
                raise
            except OSError:
                async with asyncio.timeout_at(deadline):
                    await asyncio.sleep(_RETRY_SECONDS)


def _upsert_request(collection: str, points: Points) -> tuple[wire.Header, bytes]:
    header: dict[str, Any] = {
        "operation": "upsert",
        "collection": collection,
        "ids": [str(id) for id in points.ids],
        "terms": [wire.sparse(terms) for terms in points.terms],
        "payloads": points.payloads,
    }
    return header, points.vectors.astype("<f4").tobytes()
