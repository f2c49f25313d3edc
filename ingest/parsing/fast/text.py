"""Summaries of text, Markdown and CSV from their first and last part."""

from __future__ import annotations

import re
from typing import ClassVar

from ingest.parsing.cleaning import clean
from ingest.parsing.fast.digest import Digest
from ingest.parsing.fast.windows import head, tail
from rag.core.media import CSV, MARKDOWN, TEXT
from rag.core.types import ParsedDocument

HEAD_BYTES = 512 * 1024
TAIL_BYTES = 64 * 1024
_FIRST_ROWS = 25
_LAST_ROWS = 5
_PARAGRAPHS = re.compile(r"\n{2,}")
_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*", re.DOTALL)


class TextSummary:
    """First and last paragraphs."""

    name: ClassVar[str] = "text-summary"
    media_types: ClassVar[frozenset[str]] = frozenset({TEXT})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``undecodable``, ``malformed``."""
        first = head(content, HEAD_BYTES)
        digest = Digest()
        for part in (first.text, tail(content, TAIL_BYTES, first.encoding)):
            for paragraph in _PARAGRAPHS.split(clean(part)):
                self._take(digest, paragraph)
        return digest.document(encoding=first.encoding, structure={"bytes": len(content)})

    def _take(self, digest: Digest, paragraph: str) -> None:
        digest.paragraph(paragraph)


class MarkdownSummary(TextSummary):
    """Headings, and the first and last paragraph below each."""

    name: ClassVar[str] = "markdown-summary"
    media_types: ClassVar[frozenset[str]] = frozenset({MARKDOWN})

    def _take(self, digest: Digest, paragraph: str) -> None:
        line, _, rest = paragraph.partition("\n")
        heading = _HEADING.fullmatch(line)
        if heading is None:
            digest.paragraph(paragraph)
        else:
            digest.heading(len(heading[1]), heading[2])
            digest.paragraph(rest)


class CsvSummary:
    """The first and the last rows as they are."""

    name: ClassVar[str] = "csv-summary"
    media_types: ClassVar[frozenset[str]] = frozenset({CSV})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``undecodable``, ``malformed``."""
        first = head(content, HEAD_BYTES)
        rows = clean(first.text).split("\n")
        last = clean(tail(content, TAIL_BYTES, first.encoding)).split("\n") or rows[_FIRST_ROWS:]
        digest = Digest()
        digest.paragraph("\n".join(rows[:_FIRST_ROWS]))
        digest.paragraph("\n".join(last[-_LAST_ROWS:]))
        return digest.document(encoding=first.encoding, structure={"bytes": len(content), "header": rows[0][:1000]})
