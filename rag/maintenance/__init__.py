"""Keeping a service's data in order: the doctor compares and mends, a rebuild makes the index again."""

from __future__ import annotations

from rag.maintenance.doctor import Doctor
from rag.maintenance.findings import Finding, Outcome, Report
from rag.maintenance.parts import Parts
from rag.maintenance.rebuild import Rebuild, RebuildProgress
from rag.maintenance.store_note import confirm_store, require_store_of

__all__ = [
    "Doctor",
    "Finding",
    "Outcome",
    "Parts",
    "Rebuild",
    "RebuildProgress",
    "Report",
    "confirm_store",
    "require_store_of",
]
