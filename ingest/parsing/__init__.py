"""Documents to text, in processes that can be killed."""

from __future__ import annotations

from ingest.parsing.failures import DocumentParseError
from ingest.parsing.isolated import open_parser

__all__ = ["DocumentParseError", "open_parser"]
