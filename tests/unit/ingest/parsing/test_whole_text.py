"""What a reader sees is in the text, also where no element of the source holds it: numbers, pictures, stray words."""

from __future__ import annotations

import pytest

from ingest.parsing.parsers import load_parsers
from ingest.parsing.parsers.numbering import Level, List, Numbers, Place, numeral
from rag.core.media import DOCX, HTML, MARKDOWN
from tests.unit.ingest.parsing.making import WORD, word_xml

PARSERS = load_parsers()
OUTLINE = {0: Level(text="%1."), 1: Level(text="%1.%2."), 2: Level(text="%1.%2.%3.")}


def text_of(content: bytes, media_type: str) -> str:
    return PARSERS[media_type].parse(content, source="file", media_type=media_type).text


def marks(numbers: Numbers, *places: tuple[str, int]) -> list[str | None]:
    return [numbers.next(Place(number=number, level=level), "") for number, level in places]


def test_deeper_levels_begin_anew_and_levels_passed_over_count_as_begun() -> None:
    numbers = Numbers({"k": OUTLINE}, {"1": List(kind="k")}, {})

    assert marks(numbers, ("1", 0), ("1", 1), ("1", 1), ("1", 0), ("1", 2), ("1", 1)) == [
        "1.", "1.1.", "1.2.", "2.", "2.1.1.", "2.2.",
    ]  # fmt: skip


def test_lists_of_one_kind_count_on_unless_they_start_anew() -> None:
    numbers = Numbers(
        {"k": OUTLINE}, {"1": List(kind="k"), "2": List(kind="k"), "3": List(kind="k", starts={0: 7})}, {}
    )

    assert marks(numbers, ("1", 0), ("2", 0), ("3", 0), ("3", 0), ("1", 0)) == ["1.", "2.", "7.", "8.", "9."]


def test_a_style_numbers_its_paragraphs_on_its_level_unless_they_say_otherwise() -> None:
    kinds = {"k": {0: Level(text="%1)"), 1: Level(text="(%2)", format="lowerLetter", style="Sub")}}
    numbers = Numbers(kinds, {"1": List(kind="k")}, {"Sub": Place(number="1"), "Top": Place(number="1", level=0)})

    assert [numbers.next(Place(), style) for style in ("Top", "Sub", "Sub", "Other")] == ["1)", "(a)", "(b)", None]
    assert numbers.next(Place(number="0"), "Sub") is None


def test_marks_that_are_no_numbers_and_unknown_lists_are_bullets() -> None:
    numbers = Numbers({"k": {0: Level(text="•", format="bullet")}}, {"1": List(kind="k")}, {})

    assert marks(numbers, ("1", 0), ("1", 5), ("9", 0)) == ["-", "-", "-"]


@pytest.mark.parametrize(
    ("count", "form", "written"),
    [
        (4, "lowerRoman", "iv"), (1999, "upperRoman", "MCMXCIX"), (99_999, "upperRoman", "99999"),
        (1, "lowerLetter", "a"),
        (28, "upperLetter", "BB"), (99_999, "lowerLetter", "99999"), (7, "decimalZero", "07"), (3, "none", ""),
        (10, "chineseCounting", "十"), (21, "chineseCountingThousand", "二十一"), (40, "japaneseCounting", "四十"),
        (100, "chineseCounting", "100"), (5, "hebrew1", "5"), (0, "lowerRoman", "0"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_their_format_says(count: int, form: str, written: str) -> None:
    assert numeral(count, form) == written


def test_docx_prints_the_numbers_of_headings_items_and_cells() -> None:
    numbering = (
        f'<w:numbering xmlns:w="{WORD}"><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start w:val="3"/>'
        '<w:numFmt w:val="chineseCountingThousand"/><w:lvlText w:val="第%1条"/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>'
    )

    def numbered(text: str, extra: str = "") -> str:
        place = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'
        return f"<w:p><w:pPr>{extra}{place}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"

    heading = numbered("总则", '<w:outlineLvl w:val="0"/>')
    body = heading + numbered("费用") + f"<w:tbl><w:tr><w:tc>{numbered('附则')}</w:tc></w:tr></w:tbl>"

    text = text_of(word_xml(body, beside={"word/numbering.xml": numbering.encode()}), DOCX)

    assert text == "第三条 总则\n\n第四条 费用\n\n第五条 附则"


@pytest.mark.parametrize(
    "numbering", [b"", b"<a", b"<!DOCTYPE x []><x/>", b"<x><num/><abstractNum><lvl/></abstractNum></x>"]
)
def test_docx_whose_numbering_is_damaged_keeps_its_text(numbering: bytes) -> None:
    body = '<w:p><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>item</w:t></w:r></w:p>'

    assert text_of(word_xml(body, beside={"word/numbering.xml": numbering}), DOCX) in ("item", "- item")


def test_html_words_between_cells_and_rows_are_kept() -> None:
    page = (
        b"<table>before<tr><td>a</td>between<td>b</td></tr><form><p>form</p></form><script>no</script>"
        b"<tr><table><tr><td>inner</td></tr></table></tr></table>"
    )

    text = text_of(page, HTML)

    assert all(words in text for words in ("before", "a", "between", "b", "form", "inner"))
    assert "no" not in text.split()


def test_html_pictures_are_kept_as_the_words_that_stand_for_them() -> None:
    page = b'<p>See<img alt="the crane">here<img alt=""></p><table><tr><th>x<td><img alt="a buoy"></table>'

    assert text_of(page, HTML) == "See the crane here\n\nx | a buoy"


@pytest.mark.parametrize("depth", [10, 30, 63, 64, 200])
def test_markdown_nested_at_any_depth_keeps_what_is_in_it(depth: int) -> None:
    text = text_of(("> " * depth + "in the quote\n\nafter\n\n" + "- " * depth + "in the list").encode(), MARKDOWN)

    assert all(words in text for words in ("in the quote", "after", "in the list"))
