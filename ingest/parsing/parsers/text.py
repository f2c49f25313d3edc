"""Plain text: paragraphs between blank lines."""

from __future__ import annotations

from typing import ClassVar

from ingest.parsing.assembly import SEPARATOR, Assembly
from ingest.parsing.cleaning import clean
from ingest.parsing.encodings import decode_plain
from rag.core.media import TEXT
from rag.core.types import ParsedDocument


class TextParser:
    """Reads plain text in any encoding that can be recognised."""

    name: ClassVar[str] = "text"
    media_types: ClassVar[frozenset[str]] = frozenset({TEXT})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``undecodable``, ``malformed``."""
        decoded = decode_plain(content)
        assembly = Assembly()
        for paragraph in clean(decoded.text).split(SEPARATOR):
            assembly.add_clean(paragraph)
        return assembly.document(encoding=decoded.encoding)
