"""Each format gives clean text tiled by blocks that know their headings and pages, or a stable code."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.parsing.parsers import load_parsers
from ingest.parsing.parsers.pdf import reflow
from rag.core.errors import ParseError
from rag.core.media import CSV, DOCX, HTML, MARKDOWN, PDF, TEXT
from rag.core.types import ParsedDocument, Quality
from tests.unit.ingest.parsing.making import package, pdf, word, word_xml

PARSERS = load_parsers()


def parse(content: bytes | str, media_type: str) -> ParsedDocument:
    raw = content.encode() if isinstance(content, str) else content
    return PARSERS[media_type].parse(raw, source="file", media_type=media_type)


def headings(parsed: ParsedDocument, words: str) -> tuple[str, ...]:
    place = parsed.text.index(words)
    return next(block.headings for block in parsed.blocks if block.start <= place < block.end)


def page(parsed: ParsedDocument, words: str) -> int | None:
    place = parsed.text.index(words)
    return next(block.page for block in parsed.blocks if block.start <= place < block.end)


def reason(content: bytes | str, media_type: str) -> str:
    with pytest.raises(ParseError) as caught:
        parse(content, media_type)
    return caught.value.reason


@settings(max_examples=100, deadline=None)
@given(
    media_type=st.sampled_from([TEXT, MARKDOWN, CSV, HTML]),
    text=st.text(
        alphabet=st.one_of(st.characters(exclude_categories=("Cs",)), st.sampled_from("\x00\r\n\t#|,-<>&;`*ﬁé中。 ")),
        max_size=200,
    ),
)
def test_any_text_gives_clean_text_that_its_blocks_tile(media_type: str, text: str) -> None:
    reasons: list[str] = []

    try:
        parsed = parse(text, media_type)
    except ParseError as error:
        reasons.append(error.reason)
        parsed = ParsedDocument(text="", blocks=())

    ends = [0, *(block.end for block in parsed.blocks)]
    assert [block.start for block in parsed.blocks] == ends[:-1]
    assert ends[-1] == len(parsed.text)
    assert set(reasons) <= {"empty_output", "malformed", "undecodable"}
    assert unicodedata.is_normalized("NFC", parsed.text)
    assert not any(unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t" for letter in parsed.text)


def test_every_parser_is_registered_for_what_it_says() -> None:
    assert all(media_type in parser.media_types for media_type, parser in PARSERS.items())


# PDF


def test_pdf_pages_and_title_are_known() -> None:
    parsed = parse(pdf([["First page."], ["Second page."]], title="Harbour rules"), PDF)

    assert parsed.title == "Harbour rules"
    assert (page(parsed, "First"), page(parsed, "Second")) == (1, 2)


def test_pdf_bookmarks_are_headings_from_the_line_that_bears_their_title() -> None:
    content = pdf([["Preface here", "Chapter One", "text of one"], ["still one", "Chapter Two", "text of two"]],
                  outline={"Chapter One": 0, "Chapter Two": 1})  # fmt: skip

    parsed = parse(content, PDF)

    assert headings(parsed, "Preface") == ()
    assert headings(parsed, "text of one") == ("Chapter One",)
    assert headings(parsed, "still one") == ("Chapter One",)
    assert headings(parsed, "text of two") == ("Chapter Two",)


def test_pdf_without_text_is_no_failure() -> None:
    parsed = parse(pdf([[]]), PDF)

    assert (parsed.text, parsed.quality) == ("", Quality.NO_TEXT)


def test_pdf_turned_pages_read_in_order() -> None:
    parsed = parse(pdf([["first line", "second line", "third line"]], rotate=90), PDF)

    assert parsed.text.index("first") < parsed.text.index("second") < parsed.text.index("third")


@pytest.mark.parametrize("content", [b"%PDF-1.7 and no more", pdf([["x"]])[:200], b"no pdf at all"])
def test_pdf_that_is_cut_off_is_malformed(content: bytes) -> None:
    assert reason(content, PDF) == "malformed"


def test_lines_of_a_paragraph_are_joined_and_short_lines_end_one() -> None:
    text = "This line is long enough to go on\nand so the sentence ends here. But\nit stops.\nA heading\n1. an item"

    assert reflow(text) == (
        "This line is long enough to go on and so the sentence ends here. But it stops.\nA heading\n1. an item"
    )


def test_lines_of_chinese_are_joined_without_spaces() -> None:
    assert (
        reflow("第一行的文字到这里还没有结束\n第二行接着第一行的文字继续")
        == "第一行的文字到这里还没有结束第二行接着第一行的文字继续"
    )


# DOCX


def test_docx_headings_lists_and_title_are_known() -> None:
    def fill(document: Any) -> None:
        document.core_properties.title = "港口手册"
        document.add_heading("Safety", 1)
        document.add_heading("Cranes", 2)
        document.add_paragraph("Wear a helmet.")
        document.add_paragraph("first", style="List Bullet")
        document.add_heading("Fees", 1)
        document.add_paragraph("Ten a day.")

    parsed = parse(word(fill), DOCX)

    assert parsed.title == "港口手册"
    assert headings(parsed, "Wear") == ("Safety", "Cranes")
    assert headings(parsed, "Ten a day") == ("Fees",)


def test_docx_tables_are_rows_with_their_header_first() -> None:
    def fill(document: Any) -> None:
        table = document.add_table(rows=2, cols=2)
        for cell, text in zip(
            [c for row in table.rows for c in row.cells], ["Berth", "Depth", "A", "12 m"], strict=True
        ):
            cell.text = text

    parsed = parse(word(fill), DOCX)

    assert parsed.text == "Berth | Depth\nA | 12 m"
    assert parsed.blocks[0].kind == "table"


def test_docx_long_tables_repeat_their_header() -> None:
    def fill(document: Any) -> None:
        table = document.add_table(rows=31, cols=1)
        for number, row in enumerate(table.rows):
            row.cells[0].text = f"row {number}" if number else "HEADER"

    parsed = parse(word(fill), DOCX)

    assert parsed.text.count("HEADER") == 3
    assert all(parsed.text[block.start : block.end].startswith("HEADER") for block in parsed.blocks)


def test_docx_tables_nested_without_end_are_cut_at_a_depth() -> None:
    depth = 60
    body = "<w:tbl><w:tr><w:tc>" * depth + "<w:p><w:r><w:t>deep</w:t></w:r></w:p>" + "</w:tc></w:tr></w:tbl>" * depth

    parsed = parse(word_xml("<w:p><w:r><w:t>top</w:t></w:r></w:p>" + body), DOCX)

    assert parsed.text == "top"


def test_docx_deleted_text_is_left_out_and_inserted_text_kept() -> None:
    body = (
        "<w:p><w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins>"
        "<w:r><w:tab/><w:t>after</w:t></w:r></w:p>"
    )

    assert parse(word_xml(body), DOCX).text == "new\tafter"


def test_docx_that_is_an_ole_file_is_encrypted() -> None:
    assert reason(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, DOCX) == "encrypted"


def test_docx_that_inflates_without_end_is_refused() -> None:
    assert reason(package({"word/document.xml": b"<a>" + b" " * 20_000_000}), DOCX) == "archive_too_large"


@pytest.mark.parametrize(
    "content",
    [
        word_xml("", prologue='<!DOCTYPE x [<!ENTITY a "aaaa">]>'),
        package({"other.xml": b"<a/>"}),
        package({"word/document.xml": b"<a"}),
        b"PK\x03\x04 cut off",
        word(lambda document: document.add_paragraph("x"))[:500],
    ],
)
def test_docx_that_is_damaged_or_declares_entities_is_malformed(content: bytes) -> None:
    assert reason(content, DOCX) == "malformed"


# HTML


def test_html_structure_is_kept_and_furniture_dropped() -> None:
    parsed = parse(
        "<html><head><title> My &amp; title </title><style>x{}</style></head>"
        "<body><nav>menu</nav><script>var a</script>"
        "<h1>Top</h1><p>Some <b>bold</b> text<br>next</p><h2>Sub</h2><ul><li>one</li><li>two</li></ul>"
        "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table><pre>x\n  y</pre></body></html>",
        HTML,
    )

    assert parsed.title == "My & title"
    assert parsed.text == "Top\n\nSome bold text\nnext\n\nSub\n\n- one\n- two\n\na | b\n1 | 2\n\nx\n  y"
    assert headings(parsed, "two") == ("Top", "Sub")
    assert {block.kind for block in parsed.blocks} == {"text", "table", "code"}


def test_html_nested_ten_thousand_deep_keeps_its_text() -> None:
    parsed = parse("<title>t</title>" + "<div>" * 10_000 + "the bottom" + "</div>" * 10_000 + "<p>after</p>", HTML)

    assert parsed.text == "the bottom\n\nafter"
    assert parsed.title == "t"


def test_html_that_only_scripts_would_show_is_empty_output() -> None:
    assert reason("<html><body><script>render()</script></body></html>", HTML) == "empty_output"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "gb18030", "big5", "shift_jis", "euc_kr"])
def test_html_is_read_in_its_declared_encoding(encoding: str) -> None:
    words = "한국" if encoding == "euc_kr" else "日本"
    page = f'<html><meta charset="{encoding}"><body><p>{words}</p></body></html>'

    assert parse(page.encode(encoding), HTML).text == words


def test_html_with_an_xml_declaration_is_read() -> None:
    assert parse('<?xml version="1.0" encoding="utf-8"?><html><body><p>é</p></body></html>', HTML).text == "é"


def test_html_hidden_elements_are_left_out() -> None:
    parsed = parse('<p>seen</p><div style="display: none">unseen</div><p hidden>unseen</p>', HTML)

    assert parsed.text == "seen"


# Markdown


def test_markdown_structure_is_kept_and_marks_dropped() -> None:
    parsed = parse(
        "---\ntitle: The *guide*\n---\n# Top\n\nSome **bold** [link](http://x) `code`.\n\n"
        "## Sub\n\n- one\n  1. inner\n- two\n\n"
        "```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n",
        MARKDOWN,
    )

    assert parsed.title == "The *guide*"
    assert "Some bold link code." in parsed.text
    assert "- one\n  1. inner\n- two" in parsed.text
    assert "a | b\n1 | 2" in parsed.text
    assert "x = 1" in parsed.text
    assert headings(parsed, "quoted") == ("Top", "Sub")


def test_markdown_title_is_its_first_heading() -> None:
    assert parse("Intro.\n\n# 台风应急预案\n\ntext", MARKDOWN).title == "台风应急预案"


# Text


def test_text_paragraphs_are_blocks_and_the_first_line_is_the_title() -> None:
    parsed = parse("A title\r\n\r\nfirst\x07 paragraph\r\nsecond line\r\n\r\n\r\nthird", TEXT)

    assert parsed.text == "A title\n\nfirst paragraph\nsecond line\n\nthird"
    assert parsed.title == "A title"
    assert len(parsed.blocks) == 3


@pytest.mark.parametrize("media_type", [TEXT, MARKDOWN, CSV])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "gb18030"])
def test_a_nul_character_in_plain_text_is_an_error_that_says_where(media_type: str, encoding: str) -> None:
    content = ("第一行,正文\n" * 3000 + "second\0 line").encode(encoding)

    with pytest.raises(ParseError, match="line 3001") as caught:
        parse(content, media_type)

    assert caught.value.reason == "malformed"


def test_text_of_white_space_has_no_text() -> None:
    assert parse(" \n\t\n", TEXT).quality is Quality.NO_TEXT


# CSV


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_rows_carry_the_names_of_their_columns(delimiter: str) -> None:
    table = delimiter.join(["ship", "berth", "tons"]) + "\r\n" + delimiter.join(["Anna", "7", "1200"]) + "\r\n"

    assert parse(table, CSV).text == "ship: Anna; berth: 7; tons: 1200"


def test_csv_with_quoted_breaks_and_ragged_rows_loses_nothing() -> None:
    parsed = parse('name,note\nA,"one, two\nthree"\nB\nC,x,extra\n', CSV)

    assert parsed.text == "name: A; note: one, two three\nname: B\nname: C; note: x; column 3: extra"


def test_csv_of_one_column_is_read() -> None:
    assert parse("city\nHamburg\n上海\n", CSV).text == "city: Hamburg\ncity: 上海"


def test_csv_without_names_is_rows_of_values() -> None:
    assert parse("1,2\n3,4\n", CSV).text == "1 | 2\n3 | 4"


def test_csv_of_a_header_alone_keeps_it() -> None:
    assert parse("name,age\n", CSV).text == "name | age"
