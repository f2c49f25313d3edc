"""The format of an upload is told from its bytes first, then its declaration, then its name."""

from __future__ import annotations

import pytest

from rag.core.errors import UnsupportedMediaTypeError
from rag.core.media import CSV, DOCX, FORMATS, HTML, MARKDOWN, PDF, SUPPORTED, TEXT, detect

ZIP_OF_WORD = b"PK\x03\x04\x14\x00\x06\x00[Content_Types].xml...PK\x03\x04word/document.xml"


@pytest.mark.parametrize(
    ("source", "head", "declared", "expected"),
    [
        ("a.pdf", b"%PDF-1.7\n", None, PDF),
        ("a.txt", b"%PDF-1.7\n", "text/plain", PDF),
        ("a.pdf", b"\n\n%PDF-1.4", None, PDF),
        ("a.pdf", b"cut off", None, PDF),
        ("a.docx", ZIP_OF_WORD, None, DOCX),
        ("a.txt", ZIP_OF_WORD, None, DOCX),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100, None, DOCX),
        ("a.docx", b"PK\x03\x04", None, DOCX),
        ("报告.MD", "# 标题".encode(), "text/plain; charset=utf-8", MARKDOWN),
        ("dir/page.HTM", b"<p>x", None, HTML),
        ("a.txt", b"\xef\xbb\xbf <!DOCTYPE html><p>", None, HTML),
        ("page", b"<?xml version='1.0'?>\n<!-- c --><html lang='en'>", None, HTML),
        ("a.csv", b"a;b\n1;2", "application/vnd.ms-excel", CSV),
        ("a.tsv", b"a\tb", "text/tab-separated-values", CSV),
        ("a.txt", b"a,b", "text/csv", CSV),
        ("README", b"plain words", None, TEXT),
        ("v1.2", b"plain words", None, TEXT),
        ("notes.json", b"{}", "text/plain", TEXT),
        ("a.txt", b"", None, TEXT),
        ("a.txt", "你好，世界。".encode("gb18030"), None, TEXT),
        ("a.txt", "hello there".encode("utf-16-le"), None, TEXT),
        ("a.txt", "你好，世界。\n再见".encode("utf-16"), None, TEXT),
        ("a.txt", "hello".encode("utf-32-be"), None, TEXT),
        ("a.html", b"<p>one stray \x00 character in a line of text</p>", None, HTML),
    ],
)
def test_supported_formats_are_recognised(source: str, head: bytes, declared: str | None, expected: str) -> None:
    assert detect(source, head, declared) == expected


@pytest.mark.parametrize(
    ("source", "head", "declared"),
    [
        ("a.bin", b"\x00\x01\x02\x03" * 20, None),
        ("a.txt", b"\x00\x01\x02\x03" * 20, "text/plain"),
        ("a.txt", b"one stray \x00 character in a line of text", None),
        ("a.md", b"one stray \x00 character in a line of text", None),
        ("a.csv", b"one,stray\r\n\x00,character", "text/csv"),
        ("notes", b"one stray \x00 character in a very long line of text" + b"." * 1000, None),
        ("a.txt", b"\x7fELF\x02\x01", None),
        ("picture.png", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("a.pdf", b"\x89PNG\r\n\x1a\n", "application/pdf"),
        ("a.docx", b"PK\x03\x04[Content_Types].xml xl/workbook.xml", None),
        ("a.zip", b"PK\x03\x04", None),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/msword"),
        ("a.json", b"{}", "application/json"),
        ("a.rtf", b"{\\rtf1", None),
        ("", b"", None),
    ],
)
def test_other_formats_are_refused_naming_the_supported_ones(source: str, head: bytes, declared: str | None) -> None:
    with pytest.raises(UnsupportedMediaTypeError) as caught:
        detect(source, head, declared)

    assert all(name in caught.value.message for name in FORMATS.values())


def test_every_extension_belongs_to_one_format() -> None:
    extensions = [extension for each in SUPPORTED.values() for extension in each]

    assert len(extensions) == len(set(extensions))
    assert set(SUPPORTED) == set(FORMATS)
