"""The parrot keeps the port's promises."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rag.core.ports import VectorStore
from stores.registry import open_store
from stores.testing import StoreConformance


class TestParrot(StoreConformance):
    @pytest.fixture
    async def store(self) -> AsyncIterator[VectorStore]:
        async with open_store("parrot", {}) as store:
            yield store
