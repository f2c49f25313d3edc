"""One table from what the SDK raises to what the store's port promises.

The embedded engine has no exception classes: it raises plain ``Exception``, which its host process turns into
a ``StoreError``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from sqlite3 import Error as SqliteError

import grpc
import httpx
from pydantic import ValidationError
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from rag.core.errors import (
    AnchorageError,
    CapacityError,
    CollectionNotFoundError,
    InvalidRequestError,
    StorageFullError,
    StoreError,
)

ERRORS: Mapping[type[BaseException], type[AnchorageError]] = {
    ResourceExhaustedResponse: CapacityError,
    QdrantException: StoreError,
    ApiException: StoreError,
    grpc.RpcError: StoreError,
    grpc.aio.BaseError: StoreError,
    grpc.FutureTimeoutError: StoreError,
    grpc.FutureCancelledError: StoreError,
    httpx.HTTPError: StoreError,
    httpx.InvalidURL: StoreError,
    httpx.StreamError: StoreError,
    httpx.CookieConflict: StoreError,
    SqliteError: StoreError,
    ValidationError: StoreError,
    TimeoutError: StoreError,
    OSError: StoreError,
}
"""The nearest class on the exception's own line of descent decides, unless the answer had a status of its own."""

STATUSES: Mapping[int, type[AnchorageError]] = {
    HTTPStatus.NOT_FOUND: CollectionNotFoundError,
    HTTPStatus.BAD_REQUEST: InvalidRequestError,
    HTTPStatus.UNPROCESSABLE_ENTITY: InvalidRequestError,
    HTTPStatus.TOO_MANY_REQUESTS: CapacityError,
    HTTPStatus.INSUFFICIENT_STORAGE: StorageFullError,
}
CODES: Mapping[grpc.StatusCode, type[AnchorageError]] = {
    grpc.StatusCode.NOT_FOUND: CollectionNotFoundError,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: CapacityError,
}
_LOCAL_NOT_FOUND = "Collection {} not found"
"""All that the local mode, which raises a plain ``ValueError``, says of a collection that it does not have."""
_MAX_REASON = 300


@contextmanager
def store_errors(collection: str | None = None) -> Iterator[None]:
    """Raise the port's errors for those of the SDK and its transports; cancellation passes unchanged."""
    try:
        yield
    except tuple(ERRORS) as exc:
        raise translate(exc, collection) from exc
    except ValueError as exc:
        if collection is None or str(exc) != _LOCAL_NOT_FOUND.format(collection):
            raise
        raise CollectionNotFoundError(f"no collection {collection}") from exc


def translate(exc: BaseException, collection: str | None = None) -> AnchorageError:
    """The port's error for ``exc``."""
    kind = _by_status(exc) or next(ERRORS[each] for each in type(exc).__mro__ if each in ERRORS)
    if kind is CollectionNotFoundError:
        return CollectionNotFoundError(f"no collection {collection}")
    reason = f"Qdrant: {type(exc).__name__}: {_reason(exc)}"
    if isinstance(exc, ResourceExhaustedResponse):
        return kind(reason, retry_after=float(exc.retry_after_s))
    return kind(reason)


def _by_status(exc: BaseException) -> type[AnchorageError] | None:
    if isinstance(exc, UnexpectedResponse):
        return STATUSES.get(exc.status_code or 0)
    if isinstance(exc, grpc.aio.AioRpcError):
        return CODES.get(exc.code())
    return None


def _reason(exc: BaseException) -> str:
    if isinstance(exc, grpc.aio.AioRpcError):
        return f"{exc.code().name}: {exc.details()}"[:_MAX_REASON]
    source = getattr(exc, "source", None)
    return str(source or exc).replace("\n", " ")[:_MAX_REASON]
