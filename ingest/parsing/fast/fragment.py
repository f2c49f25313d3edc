"""The beginning of a document's raw text, by the cheapest way there is: without layout, headings or tables."""

from __future__ import annotations

import html
import re
import time
from typing import ClassVar

from ingest.parsing.assembly import Assembly
from ingest.parsing.encodings import decode
from ingest.parsing.fast.windows import head
from ingest.parsing.parsers.archive import Package
from ingest.parsing.parsers.docx import main_part, require_package
from ingest.parsing.parsers.html import declared_charsets
from ingest.parsing.parsers.markup import strip_markup
from ingest.parsing.parsers.pdf import open_pdf, page_text
from rag.core.media import CSV, DOCX, HTML, MARKDOWN, PDF, TEXT
from rag.core.types import ParsedDocument

MAX_CHARACTERS = 32_768
MAX_MARKUP = 2**18
SECONDS = 1.0
_WORD_TEXT = re.compile(r"<w:t(?: [^<>]*)?>([^<>]*)</w:t>|<(/w:p)>")


class TextFragment:
    """The first characters of a text."""

    name: ClassVar[str] = "text-fragment"
    media_types: ClassVar[frozenset[str]] = frozenset({TEXT, MARKDOWN, CSV})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``undecodable``, ``malformed``."""
        decoded = head(content, MAX_CHARACTERS * 4)
        return _fragment(decoded.text, encoding=decoded.encoding)


class HtmlFragment:
    """The visible text of a page's first part."""

    name: ClassVar[str] = "html-fragment"
    media_types: ClassVar[frozenset[str]] = frozenset({HTML})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``undecodable``."""
        decoded = decode(content, declared=declared_charsets(content))
        return _fragment(strip_markup(decoded.text[:MAX_MARKUP]), encoding=decoded.encoding)


class DocxFragment:
    """The first runs of text in the main part, found without reading its tree."""

    name: ClassVar[str] = "docx-fragment"
    media_types: ClassVar[frozenset[str]] = frozenset({DOCX})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``encrypted``, ``malformed``, ``archive_too_large``."""
        require_package(content)
        package = Package(content)
        part = package.read_xml(main_part(package)).decode(errors="ignore")[: MAX_MARKUP * 4]
        runs = (html.unescape(found[1]) if found[1] is not None else "\n" for found in _WORD_TEXT.finditer(part))
        return _fragment("".join(runs))


class PdfFragment:
    """The text of the first pages."""

    name: ClassVar[str] = "pdf-fragment"
    media_types: ClassVar[frozenset[str]] = frozenset({PDF})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``encrypted``, ``malformed``, ``too_many_pages``."""
        until = time.monotonic() + SECONDS
        document = open_pdf(content)
        pages: list[str] = []
        for number in range(1, len(document) + 1):
            pages.append(page_text(document, number) or "")
            if time.monotonic() > until or sum(map(len, pages)) > MAX_CHARACTERS:
                break
        return _fragment("\n\n".join(pages))


def _fragment(text: str, *, encoding: str | None = None) -> ParsedDocument:
    assembly = Assembly()
    assembly.add(text[:MAX_CHARACTERS])
    return assembly.document(encoding=encoding)
