"""Parsing that ended without a document, with what was tried."""

from __future__ import annotations

from rag.core.errors import ParseError
from rag.core.types import ParseAttempt

TIMEOUT = "parse_timeout"
KILLED = "parser_killed"
MEMORY = "parse_memory"
OUTPUT = "output_too_large"
FAILED = "parse_failed"


class DocumentParseError(ParseError):
    """No attempt gave a document; ``reason`` is that of the last one."""

    def __init__(self, message: str | None = None, *, code: str, attempts: tuple[ParseAttempt, ...]) -> None:
        super().__init__(message, code=code)
        self.attempts = attempts
