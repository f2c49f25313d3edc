"""The conformance suite: subclass, override the ``store`` fixture, and every promise of the port is tested.

    import pytest
    pytest.register_assert_rewrite("stores.testing")   # in conftest.py

    class TestParrot(StoreConformance):
        @pytest.fixture
        async def store(self):
            async with open_store({"url": …}) as store:
                yield store

It needs pytest, pytest-asyncio in ``auto`` mode, and Hypothesis. ``FilterConformance`` and
``IsolationConformance`` work alike. What a store's ``capabilities`` lack is skipped.
"""

from __future__ import annotations

from stores.testing.filters import FilterConformance
from stores.testing.isolation import IsolationConformance
from stores.testing.searching import SearchConformance
from stores.testing.writing import StoreConformance

__all__ = ["FilterConformance", "IsolationConformance", "SearchConformance", "StoreConformance"]
