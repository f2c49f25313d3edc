"""What a database error means to the caller."""

from __future__ import annotations

import asyncio
from typing import Never

import psycopg
import pytest
from procrastinate.exceptions import ConnectorException
from psycopg import errors as postgres
from psycopg_pool import PoolTimeout

from rag.catalog.errors import catalog_errors
from rag.core.errors import (
    CatalogError,
    CollectionNotFoundError,
    ConflictError,
    InvalidRequestError,
    StorageFullError,
    SupersededError,
)


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (postgres.DiskFull("x"), StorageFullError),
        (postgres.ForeignKeyViolation("x"), CollectionNotFoundError),
        (postgres.UniqueViolation("x"), ConflictError),
        (psycopg.DataError("x"), InvalidRequestError),
        (postgres.UntranslatableCharacter("x"), InvalidRequestError),
        (psycopg.OperationalError("x"), CatalogError),
        (postgres.AdminShutdown("x"), CatalogError),
        (PoolTimeout("x"), CatalogError),
        (ConnectorException("x"), CatalogError),
        (TimeoutError(), CatalogError),
        (ConnectionRefusedError(), CatalogError),
    ],
)
def test_each_error_has_one_meaning_and_keeps_its_cause(error: BaseException, meaning: type[Exception]) -> Never:
    with pytest.raises(meaning) as raised, catalog_errors():
        raise error

    assert raised.value.__cause__ is error


def test_the_queues_error_means_what_its_cause_means() -> Never:
    error = ConnectorException("x")
    error.__cause__ = postgres.DiskFull("x")

    with pytest.raises(StorageFullError), catalog_errors():
        raise error


@pytest.mark.parametrize("error", [SupersededError(), asyncio.CancelledError(), KeyError("x")])
def test_what_is_no_database_error_passes_unchanged(error: BaseException) -> Never:
    with pytest.raises(type(error)) as raised, catalog_errors():
        raise error

    assert raised.value is error


def test_no_message_repeats_the_servers_text() -> Never:
    with pytest.raises(CatalogError) as raised, catalog_errors():
        raise psycopg.OperationalError("secret text of a document")

    assert "secret" not in str(raised.value)
