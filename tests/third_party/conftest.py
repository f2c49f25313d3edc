"""The packages here are installed by their tests and tested where they are installed."""

from __future__ import annotations

collect_ignore_glob = ["anchorage-*"]
