"""PDF by pdfium: text in reading order as the file gives it, page numbers, the outline as headings."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import pypdfium2
from pypdfium2 import raw

from ingest.parsing.assembly import Assembly
from ingest.parsing.cleaning import clean, one_line, title_of
from ingest.parsing.parsers.ligatures import mend_ligatures
from rag.core.errors import ParseError
from rag.core.media import PDF
from rag.core.types import ParsedDocument, Quality

MAX_PAGES = 20_000
_MAX_OUTLINE = 5_000
_OUTLINE_DEPTH = 8
_GARBAGE_SHARE = 0.3
_FULL_LINE = 0.7

_CJK = "\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\u3041-\u30ff\uff00-\uffef"
_BROKEN_WORD = re.compile("[\x02\ufffe](?:\r?\n)?")
SPACED = re.compile(f"(?<=[{_CJK}])[ \u3000]+(?=[{_CJK}])")
"""A gap between two characters of Chinese or Japanese."""
_ADJACENT = re.compile(f"(?<=[{_CJK}])(?=[{_CJK}])")
_GARBAGE = re.compile("[\ufffd\ue000-\uf8ff\x00-\x08\x0e-\x1f]")
_VISIBLE = re.compile(r"\S")
_SENTENCE_END = re.compile(r"[.!?:;。！？：；…][\"'”’）)\]]*$")
_ITEM_START = re.compile(r"(?:[•●◦▪‣–*-]|\(?\d{1,3}[.)]|\(?[a-z][.)])\s")
_NO_TITLE = re.compile(
    r"untitled|\(anonymous\)|microsoft word|\.(?:docx?|tex|dvi|jpe?g|png|tiff?|indd|qxd|pdf)$", re.IGNORECASE
)


class PdfParser:
    """Reads PDF. Without a text layer it is no failure but ``no_text``; with unreadable pages it is a ``fragment``."""

    name: ClassVar[str] = "pdf"
    media_types: ClassVar[frozenset[str]] = frozenset({PDF})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``encrypted``, ``malformed``, ``too_many_pages``."""
        document = open_pdf(content)
        try:
            return _read(document)
        finally:
            document.close()


def open_pdf(content: bytes) -> Any:
    """A pdfium document, to be closed. Raises ``ParseError``: ``encrypted``, ``malformed``, ``too_many_pages``."""
    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise ParseError("the PDF needs a password", code="encrypted") from error
        raise ParseError("the PDF cannot be read", code="malformed") from error
    if len(document) > MAX_PAGES:
        raise ParseError(f"the PDF has more than {MAX_PAGES} pages", code="too_many_pages")
    return document


def _read(document: Any) -> ParsedDocument:
    assembly = Assembly(form="NFKC")
    outline = Outline(document)
    pages, readable = len(document), 0
    for number in range(1, pages + 1):
        text = page_text(document, number)
        if text is None:
            continue
        readable += 1
        for heading, piece in outline.cut(number, text):
            if heading is not None:
                assembly.section(*heading)
            assembly.add(reflow(piece), page=number)
    if pages and not readable:
        raise ParseError("no page of the PDF can be read", code="malformed")
    read = assembly.document(title=document_title(document))
    if readable == pages:
        return read
    return replace(
        read,
        quality=Quality.FRAGMENT if read.text else read.quality,
        structure={"pages": pages, "pages_read": readable},
    )


def document_title(document: Any) -> str | None:
    """The title in the document's data, unless a program made it up."""
    title = title_of(document.get_metadata_dict().get("Title"))
    return None if title is None or _NO_TITLE.search(title) else title


def page_text(document: Any, number: int) -> str | None:
    """The page's lines, empty if they are garbage; ``None`` if the page cannot be read."""
    try:
        page = document[number - 1]
    except pypdfium2.PdfiumError:
        return None
    try:
        # The order of a turned page is the order of its text before it was turned.
        page.set_rotation(0)
        textpage = page.get_textpage()
        text = mend_ligatures(textpage, textpage.get_text_range())
        textpage.close()
    except pypdfium2.PdfiumError:
        return None
    finally:
        page.close()
    text = _BROKEN_WORD.sub("", text)
    visible = len(_VISIBLE.findall(text))
    if visible and len(_GARBAGE.findall(text)) > _GARBAGE_SHARE * visible:
        return ""
    return clean(_close_up(text))


def _close_up(text: str) -> str:
    """Drop the spaces between characters of spaced-out Chinese and Japanese."""
    spaced = len(SPACED.findall(text))
    return SPACED.sub("", text) if spaced > len(_ADJACENT.findall(text)) else text


def reflow(text: str) -> str:
    """Join the lines of a paragraph; a line ends one if it is short, ends a sentence early, or an item follows."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) < 2:
        return "\n".join(lines)
    width = sorted(map(len, lines))[len(lines) * 3 // 4]
    parts = [lines[0]]
    for line, following in pairwise(lines):
        parts.append(_joint(line, following, width) + following)
    return "".join(parts)


def _joint(line: str, following: str, width: int) -> str:
    full = len(line) >= _FULL_LINE * width
    if not full or _ITEM_START.match(following) or (_SENTENCE_END.search(line) and len(line) < 0.9 * width):
        return "\n"
    return "" if re.match(f"[{_CJK}]", line[-1]) and re.match(f"[{_CJK}]", following[0]) else " "


class Outline:
    """The bookmarks, and where on their pages they are."""

    def __init__(self, document: Any) -> None:
        entries: list[tuple[int, int, str]] = []
        for bookmark in document.get_toc(max_depth=_OUTLINE_DEPTH):
            if len(entries) >= _MAX_OUTLINE:
                break
            destination = bookmark.get_dest()
            page = destination.get_index() if destination else None
            title = one_line(bookmark.get_title() or "", form="NFKC")
            if page is not None and page >= 0 and title:
                entries.append((page + 1, bookmark.level + 1, title))
        self._entries = sorted(entries, key=lambda entry: entry[0])
        self._pages = [page for page, *_ in self._entries]

    @property
    def titles(self) -> list[str]:
        """Of all sections, in the order of their pages."""
        return [title for _, _, title in self._entries]

    def cut(self, page: int, text: str) -> list[tuple[tuple[int, str] | None, str]]:
        """The page's text in pieces, each with the ``(level, title)`` of the section it opens, if any.

        A bookmark whose title is not a line of the page opens its section where the last one was found.
        """
        first, last = bisect_right(self._pages, page - 1), bisect_right(self._pages, page)
        pieces: list[tuple[tuple[int, str] | None, str]] = []
        heading: tuple[int, str] | None = None
        for _, level, title in self._entries[first:last]:
            place = _find_line(text, title)
            pieces.append((heading, text[:place]))
            heading, text = (level, title), text[place:]
        return [*pieces, (heading, text)]


def _find_line(text: str, title: str) -> int:
    """Where the first line is that consists of the title, numbered or not; 0 if there is none."""
    words = r"\s+".join(map(re.escape, title.split()))
    found = re.search(rf"^(?:[\dA-Z]+(?:\.\d+)*\.?\s+)?{words}[ \t]*$", text, re.MULTILINE)
    return found.start() if found else 0
