"""A measured store is the store, and tells how its calls went."""

from __future__ import annotations

import pytest

from rag.core.errors import CollectionNotFoundError
from rag.telemetry import REGISTRY
from stores.measured import MeasuredStore
from stores.memory import MemoryStore
from stores.testing import StoreConformance


def calls(operation: str, outcome: str) -> float:
    labels = {"store": "memory", "op": operation, "outcome": outcome}
    return REGISTRY.get_sample_value("rag_vector_store_operation_duration_seconds_count", labels) or 0.0


class TestMeasured(StoreConformance):
    @pytest.fixture
    def store(self) -> MeasuredStore:
        return MeasuredStore(MemoryStore())


async def test_a_call_is_counted_with_its_outcome() -> None:
    store = MeasuredStore(MemoryStore())
    before = calls("ping", "ok"), calls("stats", "error")

    await store.ping()
    with pytest.raises(CollectionNotFoundError):
        await store.stats("none")

    assert (calls("ping", "ok"), calls("stats", "error")) == (before[0] + 1, before[1] + 1)


async def test_searches_that_the_index_left_short_are_shown() -> None:
    inner = MemoryStore()
    MeasuredStore(inner)

    inner.exact_fallbacks = 3

    assert REGISTRY.get_sample_value("rag_vector_store_exact_fallbacks", {"store": "memory"}) == 3
