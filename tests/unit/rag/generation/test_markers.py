"""The marker filter: what the reader sees never depends on how the model's text was cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.generation.markers import MarkerFilter, without_markers


def run(*deltas: str, valid: int = 3) -> tuple[str, list[int], int]:
    markers = MarkerFilter(valid=range(1, valid + 1))
    pieces = [piece for delta in deltas for piece in markers.feed(delta)] + markers.finish()
    return (
        "".join(piece.text for piece in pieces),
        [number for piece in pieces for number in piece.markers],
        markers.invalid,
    )


@pytest.mark.parametrize(
    ("text", "shown", "numbers", "invalid"),
    [
        ("Yes [1].", "Yes [1].", [1], 0),
        ("Yes 【2】。", "Yes [2]。", [2], 0),
        ("Yes [1, 2].", "Yes [1][2].", [1, 2], 0),
        ("Yes [1][3].", "Yes [1][3].", [1, 3], 0),
        ("是【1，3】", "是[1][3]", [1, 3], 0),
        ("Yes [1, 9].", "Yes [1].", [1], 1),
        ("Yes [9].", "Yes.", [], 1),
        ("Yes [0] and no.", "Yes and no.", [], 1),
        ("Yes [4][5] no", "Yes no", [], 2),
        ("In [2019] or [] or [a] or [1", "In [2019] or [] or [a] or [1", [], 0),
        ("x[1:2] [[1]]", "x[1:2] [[1]]", [1], 0),
        ("[1] It is.", "[1] It is.", [1], 0),
        ("[ 1 ]", "[1]", [1], 0),
        ("  \n padded \n", "padded", [], 0),
        ("[" + "1" * 500, "[" + "1" * 500, [], 0),
    ],
)
def test_markers_become_plain_and_unknown_ones_vanish(text: str, shown: str, numbers: list[int], invalid: int) -> None:
    assert run(text) == (shown, numbers, invalid)


def test_text_that_may_become_a_marker_is_held_back_until_it_closes() -> None:
    markers = MarkerFilter(valid={1})

    shown = ["".join(piece.text for piece in markers.feed(delta)) for delta in ("Yes [", "1", "]", " ok", " [x")]

    assert shown == ["Yes", "", " [1]", " ok", " [x"]


def test_a_text_of_one_paragraph_ends_at_its_first_blank_line() -> None:
    markers = MarkerFilter(valid={1}, one_paragraph=True)

    pieces = [*markers.feed("\n\nOne [1].\nTwo.\n"), *markers.feed("\nThree [1]"), *markers.finish()]

    assert "".join(piece.text for piece in pieces) == "One [1].\nTwo."
    assert markers.ended


def test_a_text_of_one_paragraph_that_runs_in_circles_ends_at_the_third_round() -> None:
    markers = MarkerFilter(valid={1}, one_paragraph=True)

    text = "".join(piece.text for piece in markers.feed("It is the committee of the international committee. " * 30))

    assert text.count("It is") == 3


def test_paragraphs_and_repetitions_of_a_larger_model_are_kept() -> None:
    text = "One [1].\n\nTwo." + " The same long line of a table of equal rows." * 5

    assert run(text) == (text, [1], 0)


@given(st.text(alphabet="ab 12[]【】,，.\n", max_size=60), st.data())
def test_any_cut_of_the_same_text_gives_the_same_output(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    deltas = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert run(*deltas) == run(text) == run(*text)


@given(st.text(max_size=80))
def test_text_without_brackets_passes_unchanged_but_for_its_ends(text: str) -> None:
    plain = "".join(character for character in text if character not in "[]【】\n")

    assert run(plain) == (plain.strip(), [], 0)


def test_the_numbers_of_a_source_are_not_taken_for_markers() -> None:
    assert without_markers("so [12], x[1, 2] and 【3】 but [2019] [a]") == "so (12), x(1, 2) and (3) but [2019] [a]"
