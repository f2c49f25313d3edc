"""``anchorage bench ingest``: how fast documents are parsed and ingested, and whether memory stays flat."""

from __future__ import annotations

from benchmarks.ingest.bench import measure

__all__ = ["measure"]
