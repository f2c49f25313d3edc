"""PostgreSQL with pgvector keeps the port's promises: the tests' own server, and any that is named to them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import ClassVar

import pytest

from stores.pgvector import PgVectorStore, open_store
from stores.pgvector.lexical import MAX_TERMS
from stores.pgvector.schema import MAX_HALF_DIMENSION
from stores.pgvector.selectivity import FEW_ROWS
from stores.testing import StoreConformance

_NAMED_SERVER = "ANCHORAGE_TEST_POSTGRES_URL"
NOTES = {
    "consistency": "each write is one transaction, which all calls see that begin after it returned",
    "filters": f"during the walk of the index, which goes on until the limit is full; up to {FEW_ROWS:,} rows that "
    "pass are compared instead, and where the index finds too few, all that pass",
    "limits": f"{MAX_HALF_DIMENSION:,} dimensions with 16-bit vectors; {MAX_TERMS:,} terms a record",
    "durability": "a returned write is in PostgreSQL's log, on the disk unless the server is set otherwise",
    "tenants": "our condition, and row-level security behind it",
}


def _open(url: str) -> AbstractAsyncContextManager[PgVectorStore]:
    return open_store({"url": url, "pool_size": 4, "timeout": 30.0, "schema": "conformance"})


class TestPgVector(StoreConformance):
    engine = "PGVector, embedded"
    notes: ClassVar[Mapping[str, str]] = {
        "runs": "in the service's own PostgreSQL",
        **NOTES,
    }

    @pytest.fixture
    async def store(self, embedded_postgres_url: str) -> AsyncIterator[PgVectorStore]:
        async with _open(embedded_postgres_url) as store:
            yield store

    @pytest.fixture
    async def second_store(self, embedded_postgres_url: str) -> AsyncIterator[PgVectorStore]:
        async with _open(embedded_postgres_url) as store:
            yield store


@pytest.mark.skipif(_NAMED_SERVER not in os.environ, reason=f"{_NAMED_SERVER} names no server")
class TestPostgresServer(StoreConformance):
    engine = "PGVector, server"
    notes: ClassVar[Mapping[str, str]] = {
        "runs": "PostgreSQL 15 or later with pgvector 0.8 or later",
        **NOTES,
    }

    @pytest.fixture
    async def store(self) -> AsyncIterator[PgVectorStore]:
        async with _open(os.environ[_NAMED_SERVER]) as store:
            yield store

    @pytest.fixture
    async def second_store(self) -> AsyncIterator[PgVectorStore]:
        async with _open(os.environ[_NAMED_SERVER]) as store:
            yield store
