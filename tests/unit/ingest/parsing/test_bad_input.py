"""Files made to do harm end in the parser processes as any other file does: with their text, or with a code."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator

import pytest

from ingest.parsing import DocumentParseError, TierLimits, open_parser
from rag.core.errors import UnsupportedMediaTypeError
from rag.core.media import CSV, DOCX, HTML, MARKDOWN, PDF, TEXT, detect
from rag.core.ports import DocumentParser
from rag.core.types import ParsedDocument, Quality
from tests.unit.ingest.parsing.making import (
    package,
    paragraph,
    pdf,
    pdf_with_object_stream_in_itself,
    with_declared_size,
    word_xml,
)

LAUGHS = '<!ENTITY l0 "lol">' + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
ENTITIES = f'<!DOCTYPE html [{LAUGHS}<!ENTITY x SYSTEM "file:///etc/passwd">]>'
PADDED = f"<!--{' ' * 70_000}-->{ENTITIES}"
WORD = word_xml(paragraph("x" * 5000))
INNER = package({"inner.zip": package({"word/document.xml": b"inner", "inner.txt": b"inner"})})
DEEP = 10_000

ENDS: dict[str, tuple[str, bytes, str]] = {
    "inflates without end": (DOCX, package({"word/document.xml": b"<a>" + b" " * 50_000_000}), "archive_too_large"),
    "declares less than it holds": (DOCX, with_declared_size(WORD, 100), "malformed"),
    "declares 1 GB": (DOCX, with_declared_size(WORD, 2**30), "x" * 5000),
    "holds zips in zips": (DOCX, word_xml(paragraph("outer"), beside={"word/embeddings/a.bin": INNER}), "outer"),
    "laughs": (DOCX, word_xml(paragraph("&l9;"), prologue=ENTITIES), "malformed"),
    "reads a file": (DOCX, word_xml(paragraph("&x;"), prologue=ENTITIES), "malformed"),
    "declares late": (DOCX, word_xml(paragraph("&x;&l9;"), prologue=PADDED), "malformed"),
    "declares late without use": (DOCX, word_xml(paragraph("text"), prologue=PADDED), "malformed"),
    "laughs in an attribute": (DOCX, word_xml(f'<w:p x="&l9;"/>{paragraph("text")}', prologue=PADDED), "malformed"),
    "laughs in its styles": (DOCX, word_xml(paragraph("text"), beside={"word/styles.xml": ENTITIES.encode()}), "text"),
    "is nested without end": (DOCX, word_xml("<w:sdt>" * DEEP + paragraph("x") + "</w:sdt>" * DEEP), "malformed"),
    "page laughs": (HTML, f"{ENTITIES}<p>before &l9; &x; after</p>".encode(), "before &l9; &x; after"),
    "page is nested without end": (HTML, b"<div>" * DEEP + b"bottom" + b"</div>" * DEEP, "bottom"),
    "page is never closed": (HTML, b"<ul><li>" * 30 * DEEP + b"bottom", "bottom"),
    "text laughs": (TEXT, ENTITIES.encode(), "file:///etc/passwd"),
    "quotes are nested without end": (MARKDOWN, b">" * DEEP + b" bottom", "bottom"),
    "brackets are nested without end": (MARKDOWN, b"[" * DEEP + b" bottom", "bottom"),
    "quote is never closed": (CSV, b'name,note\na,"' + b"x\n" * DEEP, "note"),
    "pages are in a circle": (PDF, pdf([["x"]]).replace(b"/Kids [5 0 R]", b"/Kids [2 0 R]"), "malformed"),
    "object stream is in itself": (PDF, pdf_with_object_stream_in_itself(), "malformed"),
    "bookmarks are in a circle": (
        PDF,
        re.sub(
            rb"/Next (\d+)", lambda found: b"/Next %d" % (int(found[1]) - 1), pdf([["x"]], outline={"A": 0, "B": 0})
        ),
        "x",
    ),
    "stream declares 1 GB": (PDF, re.sub(rb"/Length \d+", b"/Length 1073741824", pdf([["hello"]])), "hello"),
}  # fmt: skip
"""What a file does, its type, its bytes, and its code or what is in its text."""


@pytest.fixture
async def parser() -> AsyncIterator[DocumentParser]:
    async with open_parser(
        limits=TierLimits(full=30.0, summary_start=30.0, summary=45.0),
        memory_bytes=2**30,
        output_bytes=64 * 2**20,
        documents=1,
    ) as parser:
        yield parser


async def outcome(parser: DocumentParser, content: bytes, media_type: str) -> ParsedDocument | str:
    try:
        return await parser.parse(content, source="file", media_type=media_type)
    except DocumentParseError as error:
        return error.reason


async def test_every_bad_file_ends_with_its_code_or_its_own_text(parser: DocumentParser) -> None:
    surprises = {}
    for name, (media_type, content, expected) in ENDS.items():
        found = await outcome(parser, content, media_type)
        right = found == expected if isinstance(found, str) else expected in found.text
        text = "" if isinstance(found, str) else found.text
        if not right or "root:" in text or "lollol" in text or "inner" in text:
            surprises[name] = found

    assert surprises == {}


async def test_a_document_type_elsewhere_is_not_fetched(parser: DocumentParser) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        declared = f'<!DOCTYPE html SYSTEM "http://127.0.0.1:{server.getsockname()[1]}/page.dtd">'
        page = await outcome(parser, f"{declared}<p>text</p>".encode(), HTML)
        refused = await outcome(parser, word_xml(paragraph("text"), prologue=declared), DOCX)
        with pytest.raises(BlockingIOError):
            server.accept()

    assert isinstance(page, ParsedDocument)
    assert (page.text, refused) == ("text", "malformed")


async def test_a_line_without_end_is_more_output_than_is_allowed_and_gets_a_summary(parser: DocumentParser) -> None:
    document = await outcome(parser, b"x" * 200_000_000, TEXT)

    assert isinstance(document, ParsedDocument)
    assert (document.quality, document.fault) == (Quality.SUMMARY, "output_too_large")
    assert set(document.text) <= set("x \n…")


@pytest.mark.parametrize("name", ["picture.txt", "picture.docx", "picture.pdf", "picture"])
def test_a_picture_that_declares_a_gigabyte_is_no_document_whatever_its_name(name: str) -> None:
    header = (
        b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4, "big") + b"IHDR" + (2**15).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    )

    with pytest.raises(UnsupportedMediaTypeError):
        detect(name, header, None)


async def test_a_pdf_with_pages_that_cannot_be_read_does_not_pass_for_a_whole_one(parser: DocumentParser) -> None:
    damaged = pdf([["first"], ["second"]]).replace(b"/Kids [5 0 R 7 0 R]", b"/Kids [5 0 R 9 0 R]")

    document = await outcome(parser, damaged, PDF)

    assert isinstance(document, ParsedDocument)
    assert (document.text, document.quality) == ("first", Quality.FRAGMENT)
    assert document.structure == {"pages": 2, "pages_read": 1}
