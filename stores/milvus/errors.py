"""One table from what pymilvus, gRPC and the server say to what the store's port promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import grpc
from pymilvus import exceptions as sdk

from rag.core.errors import (
    AnchorageError,
    CapacityError,
    CollectionNotFoundError,
    DeadlineExceededError,
    InvalidRequestError,
    StorageFullError,
    StoreError,
)

NOT_LOADED = 101
"""The server's code for a collection that is there and cannot be read yet."""

ERRORS: Mapping[type[BaseException], type[AnchorageError]] = {
    sdk.CollectionNotExistException: CollectionNotFoundError,
    sdk.ParamError: InvalidRequestError,
    sdk.DataNotMatchException: InvalidRequestError,
    sdk.DataTypeNotMatchException: InvalidRequestError,
    sdk.DataTypeNotSupportException: InvalidRequestError,
    sdk.PrimaryKeyException: InvalidRequestError,
    sdk.PartitionKeyException: InvalidRequestError,
    sdk.MilvusException: StoreError,
    grpc.FutureTimeoutError: DeadlineExceededError,
    grpc.RpcError: StoreError,
    TimeoutError: DeadlineExceededError,
    OSError: StoreError,
}
"""By class: the nearest on the exception's own line of descent decides, where its code says nothing."""
CODES: Mapping[int, type[AnchorageError]] = {
    3: CapacityError,  # memory
    6: InvalidRequestError,  # Milvus Lite: what it cannot take
    7: StorageFullError,
    8: CapacityError,  # a rate limit
    9: CapacityError,  # a quota
    100: CollectionNotFoundError,
    1100: InvalidRequestError,  # a parameter that is wrong
    1101: InvalidRequestError,  # one that is missing
    1102: InvalidRequestError,  # one that is too large
}
"""By the server's code."""
STATUSES: Mapping[grpc.StatusCode, type[AnchorageError]] = {
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: CapacityError,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
}
"""By the status of the call itself."""
_SHOWN = 200


@contextmanager
def store_errors(collection: str | None = None) -> Iterator[None]:
    """Raise the port's errors for those of the SDK, of gRPC and of the clock."""
    try:
        yield
    except (sdk.MilvusException, grpc.RpcError, grpc.FutureTimeoutError, OSError) as exc:
        raise translate(exc, collection) from exc


def translate(exc: BaseException, collection: str | None = None) -> AnchorageError:
    """The port's error for ``exc``."""
    kind = _by_code(exc) or next(ERRORS[each] for each in type(exc).__mro__ if each in ERRORS)
    if kind is CollectionNotFoundError:
        return CollectionNotFoundError(f"no collection {collection}")
    return kind(f"Milvus: {type(exc).__name__}: {_first_line(exc)}")


def is_not_loaded(exc: BaseException) -> bool:
    """Whether the collection only has to be loaded."""
    return isinstance(exc, sdk.MilvusException) and exc.code == NOT_LOADED


def _by_code(exc: BaseException) -> type[AnchorageError] | None:
    code = exc.code if isinstance(exc, sdk.MilvusException) else None
    if isinstance(exc, grpc.RpcError) and isinstance(exc, grpc.Call):
        code = exc.code()
    return STATUSES.get(code) if isinstance(code, grpc.StatusCode) else CODES.get(code) if code is not None else None


def _first_line(exc: BaseException) -> str:
    said = exc.message if isinstance(exc, sdk.MilvusException) else str(exc)
    return (str(said).strip().splitlines() or [""])[0][:_SHOWN]
