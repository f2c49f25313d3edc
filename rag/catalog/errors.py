"""From the database's errors to the catalog's: one table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from procrastinate.exceptions import ConnectorException
from psycopg import errors as postgres
from psycopg_pool import PoolTimeout, TooManyRequests

from rag.core.errors import (
    AnchorageError,
    CatalogError,
    CollectionNotFoundError,
    ConflictError,
    InvalidRequestError,
    StorageFullError,
)

_MEANING: tuple[tuple[type[BaseException], type[AnchorageError], str], ...] = (
    (postgres.DiskFull, StorageFullError, "the disk of the catalog's database is full"),
    (postgres.ForeignKeyViolation, CollectionNotFoundError, "the collection was deleted meanwhile"),
    (postgres.UniqueViolation, ConflictError, "another request changed the same thing at the same time"),
    (postgres.CharacterNotInRepertoire, InvalidRequestError, "text holds a character that cannot be stored"),
    (postgres.UntranslatableCharacter, InvalidRequestError, "text holds a character that cannot be stored"),
    (psycopg.DataError, InvalidRequestError, "a value cannot be stored"),
    (UnicodeEncodeError, InvalidRequestError, "text holds a character that cannot be stored"),
    (PoolTimeout, CatalogError, "no connection to the catalog's database became free in time"),
    (TooManyRequests, CatalogError, "too many requests wait for the catalog's database"),
    (psycopg.Error, CatalogError, "the catalog's database failed"),
    (ConnectorException, CatalogError, "the catalog's database failed"),
    (TimeoutError, CatalogError, "the catalog's database did not answer in time"),
    (OSError, CatalogError, "the catalog's database cannot be reached"),
)


@contextmanager
def catalog_errors() -> Iterator[None]:
    """Raise what a database error means to the caller."""
    try:
        yield
    except AnchorageError:
        raise
    except tuple(kind for kind, _, _ in _MEANING) as error:
        raise _translated(error) from error


def _translated(error: BaseException) -> AnchorageError:
    cause = error.__cause__ if isinstance(error, ConnectorException) and error.__cause__ else error
    for kind, meaning, message in _MEANING:
        if isinstance(cause, kind):
            return meaning(f"{message} ({type(cause).__name__})")
    return CatalogError(f"the catalog's database failed ({type(cause).__name__})")
