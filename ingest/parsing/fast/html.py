"""Summaries of HTML: its headings and what stands around them, found by tags alone."""

from __future__ import annotations

import re
from typing import ClassVar

from ingest.parsing.encodings import decode
from ingest.parsing.fast.digest import Digest
from ingest.parsing.parsers.html import declared_charsets, title_tag
from ingest.parsing.parsers.markup import strip_markup
from rag.core.media import HTML
from rag.core.types import ParsedDocument

HEAD_CHARACTERS = 2**20
_HEADING = re.compile(r"<h([1-6])\b[^<>]*>", re.IGNORECASE)
_HEADING_END = re.compile(r"</h[1-6]\s*>", re.IGNORECASE)


class HtmlSummary:
    """Reads the first ``HEAD_CHARACTERS`` of a page."""

    name: ClassVar[str] = "html-summary"
    media_types: ClassVar[frozenset[str]] = frozenset({HTML})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``undecodable``."""
        decoded = decode(content, declared=declared_charsets(content))
        markup = decoded.text[:HEAD_CHARACTERS]
        digest = Digest()
        place = 0
        for heading in _HEADING.finditer(markup):
            if heading.start() < place:
                continue
            end = _HEADING_END.search(markup, heading.end())
            if end is None or digest.full:
                break
            _paragraphs(digest, markup[place : heading.start()])
            digest.heading(int(heading[1]), strip_markup(markup[heading.end() : end.start()]))
            place = end.end()
        _paragraphs(digest, markup[place:])
        return digest.document(title=title_tag(markup), encoding=decoded.encoding, structure={"bytes": len(content)})


def _paragraphs(digest: Digest, markup: str) -> None:
    for line in strip_markup(markup).splitlines():
        digest.paragraph(line)
