"""Summaries of Word documents, read as a stream until the time is up."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from lxml import etree

from ingest.parsing.fast.digest import Digest
from ingest.parsing.parsers.archive import Package
from ingest.parsing.parsers.docx import heading_levels, level_of, main_part, paragraph_text, require_package
from rag.core.errors import ParseError
from rag.core.media import DOCX
from rag.core.types import ParsedDocument

SECONDS = 1.5
MAX_PARAGRAPHS = 20_000


class DocxSummary:
    """Reads for ``SECONDS``, then what it has is the summary."""

    name: ClassVar[str] = "docx-summary"
    media_types: ClassVar[frozenset[str]] = frozenset({DOCX})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``encrypted``, ``malformed``, ``archive_too_large``."""
        until = time.monotonic() + SECONDS
        require_package(content)
        package = Package(content)
        levels = heading_levels(package)
        digest = Digest()
        title: str | None = None
        complete = True
        for number, paragraph in enumerate(_paragraphs(package)):
            if number >= MAX_PARAGRAPHS or time.monotonic() > until:
                complete = False
                break
            text, level = paragraph_text(paragraph), level_of(paragraph, levels)
            if level == 0:
                title = title or text.strip() or None
            if level:
                digest.heading(level, text)
            else:
                digest.paragraph(text)
            paragraph.clear()
        return digest.document(title=title, structure={"bytes": len(content), "read_to_the_end": complete})


def _paragraphs(package: Package) -> Any:
    parser = etree.XMLPullParser(
        events=("end",), tag="{*}p", resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False
    )
    part = package.read_xml(main_part(package))
    step = 2**16
    try:
        for first in range(0, len(part), step):
            parser.feed(part[first : first + step])
            for _, paragraph in parser.read_events():
                yield paragraph
    except etree.XMLSyntaxError as error:
        raise ParseError("the document is no valid XML", code="malformed") from error
