"""The conformance suite: subclass it, override the ``store`` fixture, and every promise of the port is tested.

    class TestParrot(StoreConformance):
        engine = "Parrot 1.2"
        notes = {"runs": "server", "consistency": "each write waits for its replicas"}

        @pytest.fixture
        async def store(self):
            async with open_store({"url": …}) as store:
                yield store

It needs pytest, pytest-asyncio in ``auto`` mode, Hypothesis and psutil. What a store's ``capabilities`` lack is
skipped with the store's reason. Override ``second_store`` with another client where the engine takes several, set
``examples_scale`` below 1 for a slow engine. ``-p stores.testing.plugin --stores-report FILE`` keeps the results.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in ("bad_input", "capabilities", "filters", "isolation", "records", "searching", "tenants", "writing")
    )
)

from stores.testing.conformance import StoreConformance  # noqa: E402  after the registration
from stores.testing.engine import Conformance  # noqa: E402
from stores.testing.filters import FilterConformance  # noqa: E402
from stores.testing.isolation import IsolationConformance  # noqa: E402
from stores.testing.searching import SearchConformance  # noqa: E402
from stores.testing.writing import RecordConformance  # noqa: E402

__all__ = [
    "Conformance",
    "FilterConformance",
    "IsolationConformance",
    "RecordConformance",
    "SearchConformance",
    "StoreConformance",
]
