"""Scanned PDF by tesseract: one page at a time is drawn in grey and read, what it is unsure of is left out."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar

import pypdfium2

from ingest.parsing.assembly import Assembly
from ingest.parsing.ocr import PROGRAM, SCANNED
from ingest.parsing.parsers.pdf import SPACED, document_title, open_pdf, reflow
from rag.core.errors import ParseError
from rag.core.types import ParsedDocument, Quality

DOTS_PER_INCH = 200
MAX_PIXELS = 8_000_000
"""Of a page: two sheets of A4 at ``DOTS_PER_INCH``. What is larger is drawn smaller."""
MAX_SIDE = 20_000
LEAST_CONFIDENCE = 40.0
"""In percent, the mean of a line's words. Pictures and dirt read as letters have less."""

_POINTS_PER_INCH = 72
_LEAST_DOTS = 70
_COLUMNS = 12
_WORD = "5"


class OcrParser:
    """Reads pictures of pages. Some pages that cannot be read make the document a fragment."""

    name: ClassVar[str] = PROGRAM
    media_types: ClassVar[frozenset[str]] = SCANNED

    def __init__(self, *, program: str, languages: str) -> None:
        self._program = program
        self._languages = languages

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``encrypted``, ``malformed``, ``too_many_pages``, ``parse_failed``."""
        document = open_pdf(content)
        try:
            return self._read(document)
        finally:
            document.close()

    def _read(self, document: Any) -> ParsedDocument:
        assembly = Assembly(form="NFKC")
        pages, unread = len(document), 0
        for number in range(1, pages + 1):
            paragraphs = self._paragraphs(document, number)
            if paragraphs is None:
                unread += 1
                continue
            for paragraph in paragraphs:
                assembly.add(reflow(paragraph), page=number)
        if unread and unread == pages:
            raise ParseError("no page of the PDF can be read by OCR")
        read = assembly.document(title=document_title(document))
        return _incomplete(read, pages=pages, unread=unread) if unread and read.text else read

    def _paragraphs(self, document: Any, number: int) -> list[str] | None:
        """The page's paragraphs; ``None`` if it cannot be drawn or read."""
        try:
            picture, dots = _drawn(document, number)
        except (pypdfium2.PdfiumError, ValueError):
            return None
        reading = subprocess.run(
            [self._program, "stdin", "stdout", "-l", self._languages, "--dpi", str(dots), "tsv"],
            input=picture,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return list(_paragraphs(reading.stdout.decode("utf-8", "replace"))) if reading.returncode == 0 else None


def _drawn(document: Any, number: int) -> tuple[bytes, int]:
    """A page as a portable grey map, and its dots per inch."""
    page = document[number - 1]
    try:
        width, height = page.get_size()
        if min(width, height) <= 0:
            raise ValueError("a page without extent")
        scale = min(
            DOTS_PER_INCH / _POINTS_PER_INCH, (MAX_PIXELS / (width * height)) ** 0.5, MAX_SIDE / max(width, height)
        )
        bitmap = page.render(scale=scale, grayscale=True)
        rows = bitmap.to_numpy()
        picture = b"P5 %d %d 255\n" % (rows.shape[1], rows.shape[0]) + rows.tobytes()
        bitmap.close()
    finally:
        page.close()
    return picture, max(_LEAST_DOTS, round(scale * _POINTS_PER_INCH))


def _paragraphs(table: str) -> Iterator[str]:
    """The paragraphs of tesseract's table of words, a line of the page a line."""
    words = [
        row for row in (line.split("\t") for line in table.split("\n")) if len(row) == _COLUMNS and row[0] == _WORD
    ]
    for _, paragraph in groupby(words, key=lambda row: row[2:4]):
        lines = [_line(list(line)) for _, line in groupby(paragraph, key=lambda row: row[4])]
        if any(lines):
            yield "\n".join(filter(None, lines))


def _line(words: list[list[str]]) -> str:
    """The words of a line, Chinese and Japanese closed up; nothing if they are unlikely."""
    words = [word for word in words if word[-1].strip()]
    if not words or sum(float(word[-2]) for word in words) < LEAST_CONFIDENCE * len(words):
        return ""
    return SPACED.sub("", " ".join(word[-1] for word in words))


def _incomplete(read: ParsedDocument, *, pages: int, unread: int) -> ParsedDocument:
    return replace(read, quality=Quality.FRAGMENT, structure={"pages": pages, "pages_read": pages - unread})
