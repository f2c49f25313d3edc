"""The exact in-memory store keeps the port's promises."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stores.memory import MemoryStore, open_store
from stores.testing import FilterConformance, IsolationConformance, SearchConformance, StoreConformance


class _Memory:
    @pytest.fixture
    async def store(self) -> AsyncIterator[MemoryStore]:
        async with open_store({}) as store:
            yield store


class TestStore(_Memory, StoreConformance):
    pass


class TestSearch(_Memory, SearchConformance):
    pass


class TestFilters(_Memory, FilterConformance):
    pass


class TestIsolation(_Memory, IsolationConformance):
    pass
