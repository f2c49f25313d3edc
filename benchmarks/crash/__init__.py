"""``anchorage bench crash``: processes killed between every two steps and at random; nothing may be lost or doubled."""

from __future__ import annotations

from benchmarks.crash.bench import measure

__all__ = ["measure"]
