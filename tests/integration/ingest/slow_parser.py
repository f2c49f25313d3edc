"""Parsers that take their time, for the child processes of a test."""

from __future__ import annotations

import time

from ingest.parsing.parsers.text import TextParser
from rag.core.types import ParsedDocument

SECONDS = 1.5


class SlowTextParser(TextParser):
    """Reads a text after ``SECONDS``."""

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        """The text, late."""
        time.sleep(SECONDS)
        return super().parse(content, source=source, media_type=media_type)


class StuckTextParser(TextParser):
    """Does not come back."""

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        """Nothing, for an hour."""
        time.sleep(3600)
        raise AssertionError
