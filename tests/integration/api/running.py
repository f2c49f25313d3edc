"""A service that answers over HTTP, and what its worker would do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import httpx
import numpy as np

from rag.api.app import create_app
from rag.api.limits import Limits
from rag.api.server import address_of, bind_port, request_ender, serve_app
from rag.core.catalog import Attempt, Publication
from rag.core.records import Record, RecordBatch, record_id
from rag.core.types import Quality, Scope
from rag.lexical import count_terms, document_weights
from rag.services import Services
from rag.testing import FakeGenerator

SERVICE = Scope().as_service()


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A service that answers at ``http``'s address; ``stop`` begins its shutdown, ``task`` ends with it."""

    http: httpx.AsyncClient
    services: Services
    stop: asyncio.Event
    task: asyncio.Task[None]

    @property
    def generator(self) -> FakeGenerator:
        """The scripted generator."""
        generator = self.services.generator
        assert isinstance(generator, FakeGenerator)
        return generator

    async def collection(self, name: str | None = None, **settings: Any) -> str:
        """A new collection; returns its path."""
        name = name or f"c-{uuid4().hex}"
        response = await self.http.post("/v1/collections", json={"name": name, **settings})
        assert response.status_code == 201, response.text
        return f"/v1/collections/{name}"

    async def document(self, collection: str, text: str, **members: Any) -> dict[str, Any]:
        """A published document of one chunk a paragraph, as the service shows it."""
        body = {"text": text, "source": f"{uuid4().hex}.txt", **members}
        response = await self.http.post(f"{collection}/documents", json=body)
        assert response.status_code == 202, response.text
        [accepted] = response.json()["documents"]
        await publish(self.services, UUID(accepted["id"]))
        shown: dict[str, Any] = (await self.http.get(f"{collection}/documents/{accepted['id']}")).json()
        return shown


@asynccontextmanager
async def run(services: Services, *, limits: Limits = Limits(), drain_timeout: float = 1.0) -> AsyncIterator[Running]:  # noqa: B008
    """Serve ``services`` on a free port."""
    app = create_app(lambda: nullcontext(services), limits=limits)
    listener, stop = bind_port("127.0.0.1", 0), asyncio.Event()
    url = address_of(listener)
    async with asyncio.TaskGroup() as group:
        ender = request_ender(app, drain_timeout)
        task = group.create_task(
            serve_app(app, listener, stop=stop, drain_timeout=drain_timeout, end_requests=ender), name="service"
        )
        async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as http:
            yield Running(http=http, services=services, stop=stop, task=task)
        stop.set()


async def publish(services: Services, document: UUID) -> None:
    """Do what the worker does with a text: one chunk a paragraph, written, then published."""
    attempt = await services.catalog.claim(SERVICE.tenant, document)
    assert attempt is not None
    text = (await services.blobs.get(SERVICE, attempt.blob)).decode()
    records = await _records(services, attempt, text)
    await services.store.upsert(attempt.collection.physical, SERVICE, RecordBatch.of(records))
    terms = [count_terms(record.text) for record in records]
    publication = Publication(
        attempt=attempt,
        chunks=len(records),
        characters=len(text),
        quality=Quality.FULL,
        title=None,
        text_blob=await services.blobs.put(SERVICE, text.encode()),
        encoding="utf-8",
        parse_attempts=(),
        total_terms=sum(each.length for each in terms),
        document_counts=_document_counts([each.counts for each in terms]),
    )
    assert await services.catalog.publish([publication]) == [True]


async def _records(services: Services, attempt: Attempt, text: str) -> list[Record]:
    pieces = text.split("\n\n")
    starts = np.cumsum([0, *(len(piece) + 2 for piece in pieces)]).tolist()
    vectors = await services.embedder.embed(pieces, kind="document")
    physical = attempt.collection.physical
    return [
        Record(
            id=record_id(
                tenant=SERVICE.tenant,
                collection=physical,
                document=attempt.document,
                generation=attempt.generation,
                index=index,
            ),
            vector=vectors[index],
            terms=document_weights(count_terms(piece), average_length=0),
            text=piece,
            start=starts[index],
            end=starts[index] + len(piece),
            tenant=SERVICE.tenant,
            document=attempt.document,
            generation=attempt.generation,
            index=index,
            metadata=attempt.metadata,
        )
        for index, piece in enumerate(pieces)
    ]


def _document_counts(chunks: list[Mapping[int, int]]) -> dict[int, int]:
    terms = {term for chunk in chunks for term in chunk}
    return {term: sum(term in chunk for chunk in chunks) for term in terms}


def problem(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a problem response, whose form is checked."""
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert set(body) == {"type", "title", "status", "code", "detail", "request_id"}
    assert body["status"] == response.status_code
    assert body["request_id"] == response.headers["x-request-id"]
    return body["status"], body["code"]
