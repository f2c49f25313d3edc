"""The client of the model host that another process runs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import httpx
import numpy as np
import orjson

from rag.core.errors import (
    AnchorageError,
    CapacityError,
    EmbeddingError,
    InvalidRequestError,
    ModelMismatchError,
)
from rag.core.types import Priority, Vectors
from rag.deadline import Deadline
from rag.embedding.vectors import checked_texts, from_wire

MAX_TEXTS = 64
MAX_CHARACTERS = 2**18

_FIRST_BACKOFF = 0.05
_LONGEST_BACKOFF = 2.0
_PASSING = frozenset({429, 502, 503, 504})


class RemoteEmbedder:
    """Embeds through a model host; made by :func:`open_remote_embedder`.

    Long inputs go in slices, one after the other. A slice is tried again, with growing jittered pauses or as
    the host's ``Retry-After`` says, until ``timeout`` seconds passed since its first try: the host may restart
    meanwhile. Finished slices are not repeated.
    """

    def __init__(self, client: httpx.AsyncClient, *, model: str, dimension: int, timeout: float) -> None:
        self._client = client
        self._model = model
        self._dimension = dimension
        self._timeout = timeout

    @property
    def model(self) -> str:
        """Name of the model; a host that runs another one is refused."""
        return self._model

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    async def embed(
        self,
        texts: Sequence[str],
        *,
        kind: Literal["query", "document"],
        priority: Priority = Priority.INTERACTIVE,
    ) -> Vectors:
        """One vector a text as the port says.

        Raises ``EmbeddingError`` when the host cannot be reached or answers wrongly, ``CapacityError`` when it
        stays overloaded, ``InvalidRequestError`` for texts it refuses, ``ModelMismatchError``.
        """
        parts = [await self._slice(part, kind, priority) for part in sliced(checked_texts(texts))]
        return np.concatenate(parts) if parts else np.empty((0, self._dimension), dtype=np.float32)

    async def _slice(self, texts: list[str], kind: str, priority: Priority) -> Vectors:
        body = orjson.dumps({"texts": texts, "kind": kind, "priority": priority.value, "model": self._model})
        return from_wire(await self._post(body), rows=len(texts), dimension=self._dimension)

    async def _post(self, body: bytes) -> bytes:
        deadline = Deadline.after(self._timeout)
        backoff = _FIRST_BACKOFF
        while True:
            try:
                return await self._try(body, deadline)
            except _PassingError as failure:
                wait = failure.retry_after or random.uniform(0, backoff)  # noqa: S311  jitter
                if wait >= deadline.remaining():
                    raise failure.error from failure
            await asyncio.sleep(wait)
            backoff = min(2 * backoff, _LONGEST_BACKOFF)

    async def _try(self, body: bytes, deadline: Deadline) -> bytes:
        try:
            async with asyncio.timeout(deadline.remaining()):
                reply = await self._client.post("/embed", content=body, headers={"content-type": "application/json"})
        except httpx.TransportError as error:
            raise _PassingError(EmbeddingError("the model host cannot be reached")) from error
        except TimeoutError as error:
            raise EmbeddingError("the model host did not answer in time") from error
        if reply.is_success:
            return reply.content
        refusal = _error(reply)
        raise _PassingError(refusal) if reply.status_code in _PASSING else refusal


class _PassingError(Exception):
    """A failure that may be gone on the next try."""

    def __init__(self, error: AnchorageError) -> None:
        super().__init__(error.message)
        self.error = error
        self.retry_after = error.retry_after


def sliced(texts: Sequence[str]) -> Iterator[list[str]]:
    """Cut into runs of at most ``MAX_TEXTS`` texts and ``MAX_CHARACTERS`` characters (or one longer text)."""
    part: list[str] = []
    characters = 0
    for text in texts:
        if part and (len(part) == MAX_TEXTS or characters + len(text) > MAX_CHARACTERS):
            yield part
            part, characters = [], 0
        part.append(text)
        characters += len(text)
    if part:
        yield part


def _error(reply: httpx.Response) -> AnchorageError:
    try:
        problem = orjson.loads(reply.content)
        code, detail = str(problem["code"]), str(problem["detail"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return EmbeddingError(f"the model host answered {reply.status_code}")
    after = _seconds(reply.headers.get("retry-after"))
    match code:
        case InvalidRequestError.code:
            return InvalidRequestError(detail)
        case ModelMismatchError.code:
            return ModelMismatchError(detail)
        case "overloaded" | CapacityError.code:
            return CapacityError(detail, retry_after=after)
        case _:
            return EmbeddingError(detail, retry_after=after)


def _seconds(value: str | None) -> float | None:
    try:
        return max(0.0, float(value)) if value is not None else None
    except ValueError:
        return None


@asynccontextmanager
async def open_remote_embedder(
    *, socket: Path | None = None, url: str | None = None, model: str, dimension: int, timeout: float = 30.0
) -> AsyncIterator[RemoteEmbedder]:
    """A client of the model host on a unix ``socket``, or at a ``url``; nothing is sent before the first call.

    ``timeout`` is in seconds and covers one slice with all its tries. Raises ``ValueError`` unless exactly one
    address is given.
    """
    if (socket is None) == (url is None):
        raise ValueError("a model host has one address: a socket or a url")
    transport = httpx.AsyncHTTPTransport(uds=str(socket)) if socket is not None else None
    async with httpx.AsyncClient(
        base_url=url or "http://models", transport=transport, timeout=timeout, trust_env=False
    ) as client:
        yield RemoteEmbedder(client, model=model, dimension=dimension, timeout=timeout)
