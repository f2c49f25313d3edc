"""Parsing that ended without a document, with what was tried."""

from __future__ import annotations

from rag.core.errors import ParseError
from rag.core.types import ParseAttempt

TIMEOUT = "parse_timeout"
KILLED = "parser_killed"
MEMORY = "parse_memory"
OUTPUT = "output_too_large"
FAILED = "parse_failed"
EMPTY = "empty_output"
SUPERSEDED = "not_needed"
"""Of an attempt that was stopped because a better one had ended."""

FAULTS = frozenset({TIMEOUT, KILLED, MEMORY, OUTPUT, FAILED, EMPTY})
"""What went wrong with a parser, so that another may do better; every other code is a verdict on the document."""

KILLS = frozenset({TIMEOUT, KILLED, MEMORY, OUTPUT, SUPERSEDED})
"""With these the process is gone."""


class DocumentParseError(ParseError):
    """No attempt gave a document; ``reason`` is what kept the full parse from it."""

    def __init__(self, message: str | None = None, *, code: str, attempts: tuple[ParseAttempt, ...]) -> None:
        super().__init__(message, code=code)
        self.attempts = attempts
