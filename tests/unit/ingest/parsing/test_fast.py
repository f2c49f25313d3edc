"""Summaries and fragments are short, true to the document, and laid out like any parsed document."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from ingest.parsing.fast import FRAGMENTS, SUMMARIES
from ingest.parsing.fast.fragment import MAX_CHARACTERS
from ingest.parsing.parsers import load_parsers
from rag.core.errors import ParseError
from rag.core.media import CSV, DOCX, HTML, MARKDOWN, PDF, TEXT
from rag.core.types import ParsedDocument
from tests.unit.ingest.parsing.making import pdf, word

ENCODINGS = ("utf-8", "utf-8-sig", "gb18030", "utf-16", "utf-32", "utf-32-be")


def summary(content: bytes, media_type: str) -> ParsedDocument:
    return load_parsers(SUMMARIES)[media_type].parse(content, source="file", media_type=media_type)


def fragment(content: bytes, media_type: str) -> ParsedDocument:
    return load_parsers(FRAGMENTS)[media_type].parse(content, source="file", media_type=media_type)


def test_every_type_with_a_summary_has_a_fragment() -> None:
    assert SUMMARIES.keys() == FRAGMENTS.keys()


@pytest.mark.parametrize("media_type", [TEXT, MARKDOWN, CSV, HTML])
def test_blocks_tile_the_text_of_a_summary(media_type: str) -> None:
    document = summary("# 标题\n\n第一段。\n\nlast paragraph, 2026-11-30\n".encode(), media_type)

    places = [(block.start, block.end) for block in document.blocks]
    assert places[0][0] == 0
    assert places[-1][1] == len(document.text)
    assert all(end == start for (_, end), (start, _) in pairwise(places))


def test_a_markdown_summary_keeps_headings_and_the_ends_of_sections_and_counts_the_rest() -> None:
    middle = "\n\n".join(f"middle {number}" for number in range(500))
    text = f"# Report\n\nIt began on 3 May 2026.\n\n{middle}\n\nIt ended.\n\n## 附录\n\n仅此一段。"

    document = summary(text.encode(), MARKDOWN)

    assert document.title == "Report"
    assert [part for part in document.text.split("\n\n") if part] == [
        "Report", "It began on 3 May 2026.", "It ended.", "附录", "仅此一段。",
    ]  # fmt: skip
    assert document.structure["headings"] == ["Report", "附录"]
    assert document.structure["dates"] == ["3 May 2026"]
    assert document.structure["paragraphs_read"] == 503


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_long_text_in_any_encoding_is_summarised_by_its_beginning_and_its_end(encoding: str) -> None:
    lines = "\n\n".join(f"第{number}段，说明仓库的第{number}项规定。" for number in range(40_000))
    content = f"开头的一段。\n\n{lines}\n\n最后的一段。".encode(encoding)

    document = summary(content, TEXT)

    assert document.text.startswith("开头的一段。")
    assert len(document.text) < 3000
    # The end of marked wide text is not read: only the mark says in which order its bytes are.
    assert document.text.endswith("最后的一段。") is (encoding not in ("utf-16", "utf-32"))


def test_an_html_summary_survives_headings_that_never_end() -> None:
    document = summary(b"<title>T</title><h1>Open<p>one</p>" + b"<h2>" * 50_000 + b"<p>two</p>", HTML)

    assert document.title == "T"
    assert document.text.split() == ["Open", "two"]


@pytest.mark.parametrize("media_type", [TEXT, MARKDOWN, CSV, HTML])
def test_a_fragment_is_the_beginning_and_no_more(media_type: str) -> None:
    document = fragment("起 begin ".encode() + "字".encode() * 200_000, media_type)

    assert document.text.startswith("起 begin 字")
    assert len(document.text) == MAX_CHARACTERS


def test_a_summary_and_a_fragment_of_a_pdf_hold_its_text_and_its_number_of_pages() -> None:
    content = pdf([["first page of the tariff"], ["second page of the tariff"]])

    short, raw = summary(content, PDF), fragment(content, PDF)

    assert short.structure["pages"] == short.structure["pages_read"] == 2
    assert [block.page for block in short.blocks] == [1, 2]
    assert "second page of the tariff" in raw.text


def test_a_summary_and_a_fragment_of_a_word_document_hold_its_paragraphs() -> None:
    content = word(lambda document: [document.add_heading("Tariff", 1), document.add_paragraph("950 euros 欧元")])

    short, raw = summary(content, DOCX), fragment(content, DOCX)

    assert short.structure["headings"] == ["Tariff"]
    assert short.structure["read_to_the_end"]
    assert "950 euros 欧元" in short.text
    assert raw.text.split() == ["Tariff", "950", "euros", "欧元"]


@pytest.mark.parametrize("read", [summary, fragment])
@pytest.mark.parametrize(("media_type", "content"), [(PDF, b"%PDF-1.7 nothing"), (DOCX, b"PK\x03\x04 nothing")])
def test_what_cannot_be_read_has_neither(
    read: Callable[[bytes, str], ParsedDocument], media_type: str, content: bytes
) -> None:
    with pytest.raises(ParseError) as refused:
        read(content, media_type)

    assert refused.value.reason == "malformed"
