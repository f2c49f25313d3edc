"""Errors as RFC 9457 problem documents: one table, looked up by the error's class."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rag.core.errors import (
    AnchorageError,
    CapacityError,
    ConfigurationError,
    IngestError,
    OverloadedError,
    UpstreamError,
)

MEDIA_TYPE = "application/problem+json"
CLIENT_GONE = 499
DEFAULT_RETRY_AFTER = 1.0

_SHOWN_FAULTS = 5
_CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}


class ClientGoneError(Exception):
    """The client closed its connection before the answer was ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What went wrong, for a reader and for a program; ``retry_after`` is in seconds."""

    status: int
    code: str
    title: str
    detail: str
    retry_after: float | None = None

    def document(self, request_id: str) -> dict[str, Any]:
        """The problem as RFC 9457 writes it, with ``code`` and ``request_id`` beside."""
        return {
            "type": f"urn:anchorage:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "request_id": request_id,
        }

    def response(self, request_id: str) -> Response:
        """The problem as a response; ``Retry-After`` where trying again may help."""
        headers = {} if self.retry_after is None else {"Retry-After": str(max(1, math.ceil(self.retry_after)))}
        content = orjson.dumps(self.document(request_id))
        return Response(content, self.status, headers=headers, media_type=MEDIA_TYPE)


INTERNAL = Problem(
    status=500, code="internal", title="Something went wrong inside the service", detail="see the service's log"
)


def problem_of(error: BaseException) -> Problem:
    """The problem that tells a client about ``error``: the entry of its nearest class, else ``internal``."""
    describe = next((_TABLE[cls] for cls in type(error).__mro__ if cls in _TABLE), _of_internal)
    return describe(error)


def _of_own(error: AnchorageError) -> Problem:
    title = (type(error).__doc__ or type(error).__name__).strip().splitlines()[0].rstrip(".")
    return Problem(
        status=error.status,
        code=error.code,
        title=title,
        detail=error.message,
        retry_after=error.retry_after,
    )


def _of_retryable(error: AnchorageError) -> Problem:
    problem = _of_own(error)
    return Problem(
        status=problem.status,
        code=problem.code,
        title=problem.title,
        detail=problem.detail,
        retry_after=DEFAULT_RETRY_AFTER if error.retry_after is None else error.retry_after,
    )


def _of_internal(_: BaseException) -> Problem:
    return INTERNAL


def _of_validation(error: RequestValidationError | ValidationError) -> Problem:
    # The framework puts the place of the parameter in front of its name; a body's error has names only.
    front = 1 if isinstance(error, RequestValidationError) else 0
    faults = [f"{_place(fault['loc'][front:])}: {fault['msg']}" for fault in error.errors()]
    more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
    return Problem(
        status=422,
        code="invalid_request",
        title="The request is not valid",
        detail="; ".join(faults[:_SHOWN_FAULTS]) + more,
    )


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location)) or "body"


def _of_http(error: HTTPException) -> Problem:
    phrase = HTTPStatus(error.status_code).phrase
    return Problem(
        status=error.status_code,
        code=_CODES.get(error.status_code, "invalid_request"),
        title=phrase,
        detail=str(error.detail),
    )


def _of_timeout(_: Exception) -> Problem:
    return Problem(status=504, code="deadline_exceeded", title="The deadline passed", detail="it took too long")


def _of_gone(_: Exception) -> Problem:
    return Problem(status=CLIENT_GONE, code="client_gone", title="The client left", detail="nobody waits any more")


_TABLE: Mapping[type[BaseException], Callable[[Any], Problem]] = {
    AnchorageError: _of_own,
    ConfigurationError: _of_internal,
    IngestError: _of_internal,
    UpstreamError: _of_retryable,
    CapacityError: _of_retryable,
    OverloadedError: _of_retryable,
    RequestValidationError: _of_validation,
    ValidationError: _of_validation,
    HTTPException: _of_http,
    TimeoutError: _of_timeout,
    ClientDisconnect: _of_gone,
    ClientGoneError: _of_gone,
}

HANDLED: tuple[type[Exception], ...] = tuple(cls for cls in _TABLE if issubclass(cls, Exception))
"""Classes that the application answers with their problem; all else is ``internal``."""


async def answer_error(request: Request, error: Exception) -> Response:
    """The handler of every class in :data:`HANDLED`."""
    response = problem_of(error).response(request.scope["state"]["request_id"])
    response.headers.update(getattr(error, "headers", None) or {})
    return response
