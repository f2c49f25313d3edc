"""Summaries of PDF: its data and outline, and as many of its pages as the time allows, the first ones first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

from ingest.parsing.fast.digest import Digest
from ingest.parsing.parsers.pdf import Outline, document_title, open_pdf, page_text, reflow
from rag.core.media import PDF
from rag.core.types import ParsedDocument

SECONDS = 1.5
_FIRST_PAGES = 3
_SAMPLED_PAGES = 24
_FACTS = ("Author", "Subject", "Keywords", "CreationDate", "ModDate")


class PdfSummary:
    """Reads for ``SECONDS``, then what it has is the summary."""

    name: ClassVar[str] = "pdf-summary"
    media_types: ClassVar[frozenset[str]] = frozenset({PDF})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``encrypted``, ``malformed``, ``too_many_pages``."""
        document = open_pdf(content)
        try:
            return _summary(document, until=time.monotonic() + SECONDS)
        finally:
            document.close()


def _summary(document: Any, *, until: float) -> ParsedDocument:
    texts: dict[int, str] = {}
    for number in _in_order_of_worth(len(document)):
        if texts and time.monotonic() > until:
            break
        texts[number] = page_text(document, number) or ""
    outline = Outline(document)
    digest = Digest(form="NFKC")
    for number, text in sorted(texts.items()):
        for heading, piece in outline.cut(number, text):
            if heading is not None:
                digest.heading(*heading, page=number)
            for paragraph in reflow(piece).split("\n"):
                digest.paragraph(paragraph, page=number)
    described = document.get_metadata_dict(skip_empty=True)
    facts = {name.lower(): str(described[name])[:500] for name in _FACTS if name in described}
    structure = {"pages": len(document), "pages_read": len(texts), "outline": outline.titles, **facts}
    return digest.document(title=document_title(document), structure=structure)


def _in_order_of_worth(pages: int) -> Iterator[int]:
    """Page numbers: the first ones, the last, and some evenly between; each once."""
    step = max(1, pages // _SAMPLED_PAGES)
    yield from dict.fromkeys([*range(1, min(_FIRST_PAGES, pages) + 1), pages, *range(1, pages + 1, step)][: pages + 2])
