"""Sentences of English and Chinese texts, by offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.generation.sentences import MAX_CHARACTERS, split_sentences


def pieces(text: str) -> list[str]:
    return [text[sentence.start : sentence.end] for sentence in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One is here. Two is there! Three?", ["One is here.", "Two is there!", "Three?"]),
        ("第一句。第二句！第三句？“第四句。”第五句", ["第一句。", "第二句！", "第三句？", "“第四句。”", "第五句"]),
        ("Dr. Marlow paid 3.50 euros, e.g. for tea. Then she left.", None),
        ("He lives in the U.S. now. Yes.", ["He lives in the U.S. now.", "Yes."]),
        ("# Title\n\nText of\none line. Next.", ["# Title", "Text of\none line.", "Next."]),
        ("- first item\n- second item", ["- first item", "- second item"]),
        ("版本3.5发布了。It works。", ["版本3.5发布了。", "It works。"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, sentences: list[str] | None) -> None:
    expected = sentences or (
        [] if not text.strip() else ["Dr. Marlow paid 3.50 euros, e.g. for tea.", "Then she left."]
    )

    assert pieces(text) == expected


def test_a_sentence_that_was_cut_is_not_complete() -> None:
    sentences = split_sentences("planted in 1923. The trees are old. They grow")

    assert [sentence.complete for sentence in sentences] == [False, True, False]


@given(st.text(alphabet="abC .。!？\n|-1”", max_size=300) | st.text(max_size=200).map(lambda text: text * 9))
def test_sentences_cover_the_text_in_order_and_none_is_empty_or_too_long(text: str) -> None:
    sentences = split_sentences(text)

    end = 0
    for sentence in sentences:
        assert text[end : sentence.start].strip() == ""
        assert 0 < sentence.end - sentence.start <= MAX_CHARACTERS
        assert text[sentence.start : sentence.end].strip() == text[sentence.start : sentence.end]
        end = sentence.end
    assert text[end:].strip() == ""
