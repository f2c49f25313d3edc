"""PostgreSQL with pgvector keeps the port's promises."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stores.pgvector import PgVectorStore, open_store
from stores.testing import FilterConformance, IsolationConformance, SearchConformance, StoreConformance


class _PgVector:
    @pytest.fixture
    async def store(self, postgres_url: str) -> AsyncIterator[PgVectorStore]:
        options = {"url": postgres_url, "pool_size": 4, "timeout": 30.0, "schema": "conformance"}
        async with open_store(options) as store:
            yield store


class TestStore(_PgVector, StoreConformance):
    pass


class TestSearch(_PgVector, SearchConformance):
    pass


class TestFilters(_PgVector, FilterConformance):
    pass


class TestIsolation(_PgVector, IsolationConformance):
    pass
