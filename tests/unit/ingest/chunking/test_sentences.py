"""Sentences end as their script ends them, and nothing but white space is lost between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.chunking.sentences import Break, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("今天很好。明天呢？“好！”他说。", ["今天很好。", "明天呢？", "“好！”", "他说。"]),
        ("これは文です。次の文｡", ["これは文です。", "次の文｡"]),
        ("यह वाक्य है।यह दूसरा है॥", ["यह वाक्य है।", "यह दूसरा है॥"]),
        ("هل هذا سؤال؟ نعم۔", ["هل هذا سؤال؟", "نعم۔"]),
        ('He said "stop." Then 3.14 came! Why?', ['He said "stop."', "Then 3.14 came!", "Why?"]),
        ("Thomas J. Watson of the U.S. spoke.", ["Thomas J. Watson of the U.S. spoke."]),
        ("no end at all", ["no end at all"]),
    ],
)
def test_sentences_end_with_the_marks_of_their_script(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end, _ in sentences(text, 0, len(text))] == expected


@given(st.text(alphabet=st.sampled_from("aB .!?\n。！？”」长é😀।؟"), max_size=80))
def test_sentences_cover_everything_but_white_space_in_order(text: str) -> None:
    pieces = list(sentences(text, 0, len(text)))

    assert "".join("".join(text[start:end].split()) for start, end, _ in pieces) == "".join(text.split())
    assert all(text[start:end] == text[start:end].strip() != "" for start, end, _ in pieces)


def test_lines_and_paragraphs_break_more_strongly_than_sentences() -> None:
    text = "One. Two.\nThree.\n\nFour."

    breaks = [before for _, _, before in sentences(text, 0, len(text))]

    assert breaks == [Break.BLOCK, Break.SENTENCE, Break.LINE, Break.PARAGRAPH]
