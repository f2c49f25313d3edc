from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg import errors as sqlstates
from psycopg_pool import PoolClosed, PoolTimeout

from rag.core.errors import (
    AnchorageError,
    CapacityError,
    CollectionNotFoundError,
    DeadlineExceededError,
    InvalidRequestError,
    StorageFullError,
    StoreError,
)
from stores.pgvector.errors import store_errors, translate


def _every_sdk_error() -> list[type[psycopg.Error]]:
    found = [psycopg.Error]
    for kind in found:
        found.extend(each for each in kind.__subclasses__() if each not in found)
    return found


@pytest.mark.parametrize("kind", _every_sdk_error(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_driver_becomes_one_of_the_port(kind: type[psycopg.Error]) -> None:
    translated = translate(kind("a message\nwith lines"), "books")

    assert isinstance(translated, StoreError | InvalidRequestError) or type(translated) in {
        CapacityError, CollectionNotFoundError, DeadlineExceededError, StorageFullError,
    }  # fmt: skip


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
