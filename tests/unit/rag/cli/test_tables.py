"""Tables by display width."""

from __future__ import annotations

from rag.cli.tables import pad, printable, shorten, table, width


def test_a_chinese_character_takes_two_columns_and_a_combining_mark_none() -> None:
    assert width("ab") == 2
    assert width("向量") == 4
    assert width("e\u0301") == 1
    assert width("（全角）") == 8


def test_columns_line_up_when_chinese_and_english_are_mixed() -> None:
    text = table(["source", "chunks"], [["向量数据库.md", 3], ["notes.txt", 12]])

    lines = text.splitlines()

    assert {width(line) for line in lines} == {width(lines[0])}
    assert lines[2].endswith("     3")
    assert lines[3].endswith("    12")


def test_nothing_is_shown_as_a_dash_and_line_breaks_stay_in_their_row() -> None:
    text = table(["a", "b"], [[None, "one\ntwo"]])

    assert text.splitlines()[2] == "-  one two"


def test_a_shortened_text_never_takes_more_columns_than_asked_for() -> None:
    for columns in range(2, 20):
        assert width(shorten("Milvus 是一个向量数据库 made for scale", columns)) <= columns


def test_a_text_that_fits_is_not_shortened() -> None:
    assert shorten("向量  数据库", 11) == "向量 数据库"


def test_padding_can_stand_on_the_left() -> None:
    assert pad("三", 4, right=True) == "  三"


def test_control_characters_of_a_document_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in printable("a\x1b[31mred")
