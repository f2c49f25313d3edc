"""The whole suite as one class."""

from __future__ import annotations

from stores.testing.bad_input import BadInputConformance
from stores.testing.capabilities import CapabilityConformance
from stores.testing.filters import FilterConformance
from stores.testing.isolation import IsolationConformance
from stores.testing.searching import SearchConformance
from stores.testing.writing import RecordConformance


class StoreConformance(
    BadInputConformance,
    IsolationConformance,
    FilterConformance,
    SearchConformance,
    RecordConformance,
    CapabilityConformance,
):
    """Every promise of the port; pytest runs the last part first."""
