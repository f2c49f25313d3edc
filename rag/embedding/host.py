"""The models of this process for other processes, over HTTP on a local socket.

``POST /embed`` takes ``{"texts": […], "kind": "query"|"document", "priority": "interactive"|"bulk", "model"?}``,
``POST /score`` takes ``{"query": …, "texts": […]}``; both answer with the numbers alone, little-endian float32
in rows, and their shape in ``X-Rows`` and ``X-Dimension``. Errors are problem documents with a ``code``.
``GET /healthz`` says of each model whether it is ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rag.core.errors import AnchorageError, InvalidRequestError, ModelMismatchError, RerankError, TooLargeError
from rag.core.ports import Embedder, PairScorer
from rag.core.types import Priority
from rag.embedding.vectors import WIRE_TYPE

MAX_BODY_BYTES = 8 * 2**20
MAX_TEXTS = 512

Result = TypeVar("Result")
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_KINDS: Mapping[str, Literal["query", "document"]] = {"query": "query", "document": "document"}


class Loadable(Protocol):
    """A model that may still be loading."""

    @property
    def ready(self) -> bool:
        """Whether it is loaded."""
        ...

    @property
    def error(self) -> BaseException | None:
        """Why it could not be loaded."""
        ...


class HostedEmbedder(Embedder, Loadable, Protocol):
    """An embedder that says whether it is ready."""


class HostedScorer(PairScorer, Loadable, Protocol):
    """A scorer that says whether it is ready."""


def create_model_host(embedder: HostedEmbedder, scorer: HostedScorer | None) -> Starlette:
    """The ASGI application; it owns neither model. Without a scorer ``/score`` answers 503."""
    host = _Host(embedder, scorer)
    return Starlette(
        routes=[
            Route("/embed", host.embed, methods=["POST"]),
            Route("/score", host.score, methods=["POST"]),
            Route("/healthz", host.health, methods=["GET"]),
        ],
        exception_handlers={AnchorageError: _problem, ClientDisconnect: _gone},
    )


class _Host:
    def __init__(self, embedder: HostedEmbedder, scorer: HostedScorer | None) -> None:
        self._embedder = embedder
        self._scorer = scorer

    async def embed(self, request: Request) -> Response:
        body = await _read_object(request)
        texts, kind, priority = _texts(body), _kind(body.get("kind")), _priority(body.get("priority"))
        if body.get("model", self._embedder.model) != self._embedder.model:
            raise ModelMismatchError(f"this host runs {self._embedder.model}")
        return _numbers(await _while_connected(request, self._embedder.embed(texts, kind=kind, priority=priority)))

    async def score(self, request: Request) -> Response:
        body = await _read_object(request)
        texts, query = _texts(body), body.get("query")
        if not isinstance(query, str):
            raise InvalidRequestError("query is a string")
        if self._scorer is None:
            raise RerankError("this host runs no reranker")
        return _numbers(await _while_connected(request, self._scorer.score(query, texts)))

    async def health(self, request: Request) -> Response:
        del request
        models = {"embedding": _state(self._embedder, self._embedder.model)}
        if self._scorer is not None:
            models["rerank"] = _state(self._scorer, self._scorer.model)
        ready = all(model["status"] == "ready" for model in models.values())
        return JSONResponse(models, status_code=200 if ready else 503)


def _state(model: Loadable, name: str) -> dict[str, str]:
    waiting = "loading" if model.error is None else "failed"
    return {"model": name, "status": "ready" if model.ready else waiting}


async def _read_object(request: Request) -> Mapping[str, Any]:
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_BODY_BYTES:
            raise TooLargeError(f"a request holds at most {MAX_BODY_BYTES} bytes")
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError("the body is not JSON") from error
    if not isinstance(body, dict):
        raise InvalidRequestError("the body is not an object")
    return body


def _texts(body: Mapping[str, Any]) -> list[str]:
    texts = body.get("texts")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InvalidRequestError("texts is a list of strings")
    if len(texts) > MAX_TEXTS:
        raise InvalidRequestError(f"a request holds at most {MAX_TEXTS} texts")
    return texts


def _kind(value: object) -> Literal["query", "document"]:
    kind = _KINDS.get(value) if isinstance(value, str) else None
    if kind is None:
        raise InvalidRequestError("kind is query or document")
    return kind


def _priority(value: object) -> Priority:
    try:
        return Priority(str(value)) if value is not None else Priority.INTERACTIVE
    except ValueError as error:
        raise InvalidRequestError("priority is interactive or bulk") from error


async def _while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Await ``work``, cancelling it when the client leaves, so that nobody's texts hold no place in the queue."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.wait({task, gone})


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue


def _numbers(values: NDArray[np.float32]) -> Response:
    rows, dimension = values.shape[0], values.shape[1] if values.ndim > 1 else 1
    return Response(
        np.ascontiguousarray(values, dtype=WIRE_TYPE).tobytes(),
        media_type="application/octet-stream",
        headers={"x-rows": str(rows), "x-dimension": str(dimension)},
    )


async def _problem(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, AnchorageError)  # noqa: S101  registered for this type only
    content = {
        "type": "about:blank",
        "title": (type(error).__doc__ or "").strip(),
        "status": error.status,
        "code": error.code,
        "detail": error.message,
    }
    after = {} if error.retry_after is None else {"retry-after": f"{error.retry_after:.2f}"}
    return JSONResponse(content, status_code=error.status, media_type="application/problem+json", headers=after)


async def _gone(request: Request, error: Exception) -> Response:
    del request, error
    return Response(status_code=499)
