"""One table from what psycopg raises to what the store's port promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg
from psycopg import errors as sqlstates
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from rag.core.errors import (
    AnchorageError,
    CapacityError,
    CollectionNotFoundError,
    DeadlineExceededError,
    InvalidRequestError,
    StorageFullError,
    StoreError,
)

ERRORS: Mapping[type[BaseException], type[AnchorageError]] = {
    sqlstates.UndefinedTable: CollectionNotFoundError,
    sqlstates.InvalidSchemaName: CollectionNotFoundError,
    sqlstates.QueryCanceled: DeadlineExceededError,
    sqlstates.LockNotAvailable: DeadlineExceededError,
    sqlstates.DiskFull: StorageFullError,
    sqlstates.OutOfMemory: CapacityError,
    sqlstates.TooManyConnections: CapacityError,
    sqlstates.ProgramLimitExceeded: InvalidRequestError,
    psycopg.DataError: InvalidRequestError,
    psycopg.Error: StoreError,
    PoolTimeout: StoreError,
    PoolClosed: StoreError,
    TooManyRequests: CapacityError,
    TimeoutError: DeadlineExceededError,
    OSError: StoreError,
}
"""The nearest class on the exception's own line of descent decides."""


@contextmanager
def store_errors(collection: str | None = None) -> Iterator[None]:
    """Raise the port's errors for those of psycopg, the pool and the clock; cancellation passes unchanged."""
    try:
        yield
    except (psycopg.Error, PoolClosed, TooManyRequests, OSError) as exc:
        raise translate(exc, collection) from exc


def translate(exc: BaseException, collection: str | None = None) -> AnchorageError:
    """The port's error for ``exc``."""
    kind = next(ERRORS[each] for each in type(exc).__mro__ if each in ERRORS)
    if kind is CollectionNotFoundError:
        return CollectionNotFoundError(f"no collection {collection}")
    return kind(f"PostgreSQL: {type(exc).__name__}: {_first_line(exc)}")


def _first_line(exc: BaseException) -> str:
    return (str(exc).strip().splitlines() or [""])[0]
