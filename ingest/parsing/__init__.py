"""Documents to text, in processes that can be killed."""

from __future__ import annotations

from ingest.parsing.failures import DocumentParseError
from ingest.parsing.isolated import open_parser
from ingest.parsing.tiers import TierLimits

__all__ = ["DocumentParseError", "TierLimits", "open_parser"]
