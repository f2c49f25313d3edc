"""Every piece of a table names its columns, is small enough for a chunk, and loses no cell."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ingest.parsing.assembly import Assembly
from ingest.parsing.parsers import load_parsers
from ingest.parsing.tables import BLOCK_BYTES, MAX_SPAN, add_rows, add_table
from rag.core.media import DOCX, HTML
from tests.unit.ingest.parsing.making import word

PARSERS = load_parsers()
CELLS = st.text(alphabet="abc 港口:|", max_size=12)
ROWS = st.lists(st.lists(CELLS, max_size=6), max_size=40)


def pieces(rows: list[list[str]]) -> list[str]:
    assembly = Assembly()
    add_table(assembly, rows)
    parsed = assembly.document()
    return [parsed.text[block.start : block.end].strip() for block in parsed.blocks]


def page(markup: str) -> str:
    return PARSERS[HTML].parse(markup.encode(), source="file", media_type=HTML).text


def test_a_piece_holds_the_header_and_as_many_rows_as_fit() -> None:
    found = pieces([["Berth", "Depth"], *([f"berth {number}", "x" * 90] for number in range(12))])

    assert all(piece.startswith("Berth | Depth\n") for piece in found)
    assert max(len(piece.encode()) for piece in found) <= BLOCK_BYTES
    assert len(found) == 2


def test_rows_under_a_header_that_would_fill_a_piece_name_their_columns_themselves() -> None:
    names = [f"{number} " + "n" * 60 for number in range(8)]

    found = pieces([names, ["a", "b", "", "", "", "", "", "c"]])

    assert found == [f"{names[0]}: a; {names[1]}: b; {names[7]}: c"]


def test_a_row_too_long_for_a_piece_is_several_lines_that_name_their_columns() -> None:
    found = pieces([["Berth", "Notes", "Depth"], ["A", "y" * 630, "12 m"]])

    assert "\n".join(found) == "Berth: A\nNotes: " + "y" * 630 + "\nDepth: 12 m"


def test_columns_that_are_empty_throughout_are_left_out() -> None:
    assert pieces([["a", "", "b"], ["1", "", "2"]]) == ["a | b\n1 | 2"]


def test_cells_beyond_the_names_are_numbered_and_without_names_they_stand_alone() -> None:
    assembly = Assembly()
    add_rows(assembly, ["a"], [["1", "2"]])
    add_rows(assembly, [], [["3", "4"]])

    assert assembly.document().text == "a: 1; column 2: 2\n\n3 | 4"


@given(rows=ROWS)
def test_no_word_of_a_table_is_lost(rows: list[list[str]]) -> None:
    kept = " ".join(pieces(rows))

    assert all(word in kept for row in rows for cell in row for word in cell.split())


def test_html_cells_over_rows_are_repeated_and_those_over_columns_leave_the_others_empty() -> None:
    text = page(
        "<title>t</title><table><tr><th>Port</th><th>Berth</th><th>Depth</th></tr>"
        "<tr><td rowspan=2>North</td><td>A</td><td>12</td></tr><tr><td>B</td><td>9</td></tr>"
        "<tr><td colspan=2>all</td><td>7</td></tr></table>"
    )

    assert text == "Port | Berth | Depth\nNorth | A | 12\nNorth | B | 9\nall |  | 7"


def test_html_spans_without_bound_or_sense_are_bounded() -> None:
    text = page(
        "<title>t</title><table><tr><td colspan=99999999>a</td><td rowspan=-1>b</td><td colspan=x>c</td></tr>"
        "<tr><td colspan=0>d</td></tr></table>"
    )

    assert text == "a | b | c\nd"
    assert MAX_SPAN < 1000


def test_docx_cells_merged_downwards_and_across_stay_in_their_columns() -> None:
    def fill(document: Any) -> None:
        table = document.add_table(rows=4, cols=3)
        texts = ["Port", "Berth", "Depth", "North", "A", "12", "", "B", "9", "all", "", "7"]
        for cell, text in zip([cell for row in table.rows for cell in row.cells], texts, strict=True):
            cell.text = text
        table.cell(1, 0).merge(table.cell(2, 0))
        table.cell(3, 0).merge(table.cell(3, 1))

    parsed = PARSERS[DOCX].parse(word(fill), source="file", media_type=DOCX)

    assert parsed.text == "Port | Berth | Depth\nNorth | A | 12\nNorth | B | 9\nall |  | 7"
