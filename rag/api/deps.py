"""What every route needs of its request: services, limits, scope, deadline, id and a checked body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from rag.api.limits import Limits
from rag.core.catalog import CollectionView
from rag.core.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    ModelMismatchError,
    TooLargeError,
    UnsupportedMediaTypeError,
)
from rag.core.types import Scope
from rag.deadline import Deadline
from rag.services import Services

DEADLINE_HEADER = "x-request-deadline-ms"
BODY_PAUSE_SECONDS = 60.0
"""How long a client may pause within a body that it sends."""

B = TypeVar("B", bound=BaseModel)

_SCOPE = Scope()
_MAX_DIGITS = 12


def services_of(request: Request) -> Services:
    """The open parts of the service."""
    services: Services = request.app.state.services
    return services


def limits_of(request: Request) -> Limits:
    """The service's limits and defaults."""
    limits: Limits = request.app.state.limits
    return limits


async def check_query(request: Request) -> None:
    """Raise ``InvalidRequestError`` for query parameters that the route does not have: a misspelt one is no filter."""
    if not request.scope["query_string"]:
        return
    known = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        has = f"this route has {', '.join(sorted(known))}" if known else "this route has none"
        raise InvalidRequestError(f"unknown query parameter {', '.join(unknown)}; {has}")


def scope_of(_: Request) -> Scope:
    """On whose behalf the request is made: there is one tenant."""
    return _SCOPE


def request_id_of(request: Request) -> str:
    """The request's id, given by the client or made."""
    return str(request.scope["state"]["request_id"])


def deadline_of(request: Request, *, default: float) -> Deadline:
    """When the client stops waiting: ``X-Request-Deadline-Ms`` up to the service's maximum, else ``default`` seconds.

    Raises ``InvalidRequestError`` for a header that is not a positive whole number.
    """
    given = request.headers.get(DEADLINE_HEADER)
    if given is None:
        return Deadline.after(default)
    if not (given.isascii() and given.isdigit() and len(given) <= _MAX_DIGITS and int(given) > 0):
        raise InvalidRequestError("X-Request-Deadline-Ms is a positive whole number of milliseconds")
    return Deadline.after(min(int(given) / 1000, limits_of(request).max_deadline))


async def read_body(request: Request, model: type[B]) -> B:
    """The request's JSON body, checked.

    Raises ``TooLargeError``, ``UnsupportedMediaTypeError``, ``InvalidRequestError`` for what is not JSON, and
    pydantic's error for what does not fit ``model``.
    """
    kind = content_type(request)
    if kind not in ("application/json", "") and not kind.endswith("+json"):
        raise UnsupportedMediaTypeError(f"the body is {kind}; send application/json")
    content = await _limited_body(request, limits_of(request).max_json)
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"the body is not JSON: {error}") from None
    return model.model_validate(value)


def content_type(request: Request) -> str:
    """The body's media type without parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def content_charset(request: Request) -> str:
    """The charset that the body's media type names, in lower case; empty where it names none."""
    parameters = request.headers.get("content-type", "").lower().split(";")[1:]
    named = (parameter.partition("=") for parameter in parameters)
    return next((value.strip().strip('"') for name, _, value in named if name.strip() == "charset"), "")


async def body_pieces(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes. Raises ``DeadlineExceededError`` when nothing comes for ``BODY_PAUSE_SECONDS``."""
    pieces = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(BODY_PAUSE_SECONDS):
                piece = await anext(pieces, None)
        except TimeoutError:
            raise DeadlineExceededError(f"the body stopped coming for {BODY_PAUSE_SECONDS:g} seconds") from None
        if piece is None:
            return
        yield piece


def check_announced_length(request: Request, most: int) -> None:
    """Refuse a body that says itself that it is larger than ``most`` bytes. Raises ``TooLargeError``."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > most:
        raise too_large(most)


def too_large(most: int) -> TooLargeError:
    """The error of a body larger than ``most`` bytes."""
    return TooLargeError(f"the request is larger than {most} bytes")


async def _limited_body(request: Request, most: int) -> bytes:
    check_announced_length(request, most)
    content = bytearray()
    async for piece in body_pieces(request):
        content += piece
        if len(content) > most:
            raise too_large(most)
    return bytes(content)


def check_model(collection: CollectionView, services: Services) -> None:
    """Raise ``ModelMismatchError`` when the collection was made with another embedding model."""
    configured = services.embedder.model
    if collection.embedding_model != configured:
        raise ModelMismatchError(
            f"the collection was made with {collection.embedding_model}, the service is configured with {configured}"
        )


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """``value`` as JSON: dataclasses, ids and times included."""
    return Response(orjson.dumps(value, option=orjson.OPT_UTC_Z), status, headers, "application/json")
