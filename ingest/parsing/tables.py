"""Tables as text that still makes sense in pieces: the header comes back every few rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ingest.parsing.assembly import Assembly
from ingest.parsing.cleaning import one_line

ROWS_PER_BLOCK = 12
_CELL_SEPARATOR = " | "

Row = Sequence[str]


def add_table(assembly: Assembly, rows: Sequence[Row], *, page: int | None = None) -> None:
    """Add rows as lines ``a | b``; the first row is the header and opens each block of ``ROWS_PER_BLOCK``."""
    lines = [line for line in map(_line, rows) if line]
    if not lines:
        return
    header, body = lines[0], lines[1:]
    for group in _groups(body) if body else [()]:
        assembly.add("\n".join((header, *group)), page=page, kind="table")


def _groups(lines: list[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(lines), ROWS_PER_BLOCK):
        yield lines[first : first + ROWS_PER_BLOCK]


def _line(row: Row) -> str:
    cells = [one_line(cell) for cell in row]
    return _CELL_SEPARATOR.join(cells).strip() if any(cells) else ""
