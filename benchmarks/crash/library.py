"""A client that repeats each request until it is answered, and knows what must be there afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from benchmarks.crash.documents import BROKEN, STEADY, UPDATED, content_of

COLLECTION, SPARE = "crash", "spare"
_PAUSE = 0.1
_PATIENCE = 120.0
_DONE = {httpx.codes.NOT_FOUND, httpx.codes.CONFLICT}
"""Answers to a repeated request that say that the first one was done."""


@dataclass(slots=True)
class Wanted:
    """What must be there of a document once everything has come to rest."""

    version: int
    metadata: dict[str, int] = field(default_factory=dict)


class Library:
    """Uploads, changes and deletes documents; ``revive`` is awaited when the API does not answer."""

    def __init__(self, client: httpx.AsyncClient, revive: Callable[[], Awaitable[None]]) -> None:
        self.wanted: dict[str, Wanted] = {}
        self.server_errors: list[str] = []
        self.silences = 0
        self.enough = False
        self._client = client
        self._revive = revive
        self._version = 0

    async def open(self) -> None:
        """Create the collection and the document that is never replaced."""
        await self._create(COLLECTION)
        await self.put(STEADY)

    async def round(self) -> None:
        """Replace, add, change and delete documents, and one collection: a bit of everything."""
        for source in (*UPDATED, BROKEN):
            await self.put(source)
        number = self._version
        await self.put(f"new-{number}.txt")
        await self.describe(STEADY)
        await self._create(SPARE)
        await self._upload(SPARE, "spare.txt", number)
        await self._retry(STEADY)
        for source in [source for source in self.wanted if source.startswith("new-")][:-1]:
            await self.delete(source)
        await self._repeat("DELETE", f"/v1/collections/{SPARE}")

    async def put(self, source: str) -> None:
        """Upload the next version of a document."""
        self._version += 1
        metadata = self.wanted[source].metadata if source in self.wanted else {}
        await self._upload(COLLECTION, source, self._version)
        self.wanted[source] = Wanted(self._version, metadata)

    async def describe(self, source: str) -> None:
        """Give a document other metadata."""
        self._version += 1
        metadata = {"round": self._version}
        await self._repeat("PATCH", await self._route(source), json={"metadata": metadata})
        self.wanted[source].metadata = metadata

    async def delete(self, source: str) -> None:
        """Delete a document."""
        await self._repeat("DELETE", await self._route(source))
        del self.wanted[source]

    async def _retry(self, source: str) -> None:
        await self._repeat("POST", f"{await self._route(source)}/retry")

    async def _create(self, name: str) -> None:
        body = {"name": name, "fields": {"round": "integer"}}
        await self._repeat("POST", "/v1/collections", json=body)

    async def _upload(self, collection: str, source: str, version: int) -> None:
        known = self.wanted[source].metadata if collection == COLLECTION and source in self.wanted else {}
        await self._repeat(
            "POST",
            f"/v1/collections/{collection}/documents",
            files={"file": (source, content_of(source, version))},
            data={"source": source, "metadata": json.dumps(known)},
        )

    async def _route(self, source: str) -> str:
        """The address of a document."""
        route = f"/v1/collections/{COLLECTION}/documents"
        answer = await self._repeat("GET", route, params={"source": source})
        (document,) = answer["documents"]
        return f"{route}/{document['id']}"

    async def _repeat(self, method: str, route: str, **request: Any) -> dict[str, Any]:
        """Send until the service has answered that it is done, across its kills."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                try:
                    response = await self._client.request(method, route, **request)
                except httpx.HTTPError:
                    self.silences += 1
                    await self._revive()
                else:
                    if response.is_success or response.status_code in _DONE:
                        return dict(response.json()) if response.content else {}
                    self._note(response)
                await asyncio.sleep(_PAUSE)

    def _note(self, response: httpx.Response) -> None:
        """An outage is announced as 503; anything else is a fault of the service."""
        if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            self.server_errors.append(f"{response.request.method} {response.request.url.path}: {response.text[:200]}")
