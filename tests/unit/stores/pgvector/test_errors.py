from __future__ import annotations

import asyncio

import psycopg
import psycopg_pool
import pytest
from psycopg import errors as sqlstates
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from rag.core.errors import (
    AnchorageError,
    CollectionNotFoundError,
    DeadlineExceededError,
    InvalidRequestError,
    StorageFullError,
    StoreError,
)
from stores.pgvector.errors import ERRORS, store_errors


def _every_sdk_error() -> list[type[Exception]]:
    """Those of the driver by descent, its SQLSTATEs among them, and those that the pool exports."""
    found: list[type[Exception]] = [psycopg.Error]
    for kind in found:
        found.extend(each for each in kind.__subclasses__() if each not in found)
    exported = (getattr(psycopg_pool, name) for name in psycopg_pool.__all__)
    pooled = [each for each in exported if isinstance(each, type) and issubclass(each, Exception)]
    return list(dict.fromkeys([*found, *pooled]))


def test_the_enumeration_covers_every_sqlstate_and_the_pool() -> None:
    classes = [each for each in vars(sqlstates).values() if isinstance(each, type)]
    states = {each for each in classes if issubclass(each, psycopg.Error)}

    assert states | {PoolTimeout, PoolClosed, TooManyRequests} <= set(_every_sdk_error())


@pytest.mark.parametrize("kind", _every_sdk_error(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_driver_becomes_one_of_the_port(kind: type[Exception]) -> None:
    with pytest.raises(AnchorageError) as caught, store_errors("books"):
        raise kind("a message\nwith lines")

    assert "with lines" not in caught.value.message
    assert type(caught.value) in set(ERRORS.values())


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (sqlstates.UndefinedTable(), CollectionNotFoundError),
        (sqlstates.QueryCanceled(), DeadlineExceededError),
        (sqlstates.DiskFull(), StorageFullError),
        (sqlstates.DataException(), InvalidRequestError),
        (sqlstates.AdminShutdown(), StoreError),
        (PoolTimeout(), StoreError),
        (PoolClosed(), StoreError),
        (TimeoutError(), DeadlineExceededError),
        (ConnectionRefusedError(), StoreError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_the_nearest_class_decides(raised: Exception, expected: type[AnchorageError]) -> None:
    with pytest.raises(expected) as caught, store_errors("books"):
        raise raised

    assert type(caught.value) is expected
    assert caught.value.__cause__ is raised


def test_cancellation_and_our_own_errors_pass_unchanged() -> None:
    for raised in (asyncio.CancelledError(), InvalidRequestError("as it is")):
        with pytest.raises(type(raised)) as caught, store_errors():
            raise raised

        assert caught.value is raised
