"""Tables as text that still makes sense in pieces: every piece names its columns, and is small enough for one chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ingest.parsing.assembly import Assembly
from ingest.parsing.cleaning import one_line

ROWS_PER_BLOCK = 12
BLOCK_BYTES = 640
"""In UTF-8. Dense tables have about two a token, whatever the script, so that a block is not cut into chunks."""
MAX_SPAN = 256
_COLUMNS = " | "
_FIELDS = "; "

Row = Sequence[str]


def add_table(assembly: Assembly, rows: Iterable[Row], *, page: int | None = None) -> None:
    """Add rows as lines ``a | b``; the first row is the header and opens each block.

    Where the header or a row would fill a block, each cell carries the name of its column instead.
    """
    filled = _without_empty_columns([cells for cells in map(_cells, rows) if cells])
    if not filled:
        return
    header, *lines = (_COLUMNS.join(cells).strip() for cells in filled)
    room = BLOCK_BYTES - _size(header)
    if not lines:
        assembly.add(header, page=page, kind="table")
    elif room < BLOCK_BYTES // 2 or max(map(_size, lines)) > room:
        add_rows(assembly, filled[0], filled[1:], page=page)
    else:
        for group in _groups(lines, room=room):
            assembly.add("\n".join((header, *group)), page=page, kind="table")


def add_rows(assembly: Assembly, names: Row, rows: Iterable[Row], *, page: int | None = None) -> None:
    """Add rows as lines ``name: value; …``, or ``a | b`` without ``names``; one too long is several lines."""
    lines = (line for row in rows for line in _named_lines(names, row))
    for group in _groups(lines, room=BLOCK_BYTES):
        assembly.add("\n".join(group), page=page, kind="table")


def plain_line(row: Row) -> str:
    """The filled cells of a row."""
    return _COLUMNS.join(filter(None, map(one_line, row)))


def _named_lines(names: Row, row: Row) -> Iterator[str]:
    """The filled cells of a row with the names of their columns; those beyond the names are numbered."""
    known = len(names)
    fields = []
    for place, cell in enumerate(map(one_line, row)):
        name = names[place] if place < known else f"column {place + 1}" if known else ""
        if cell:
            fields.append(f"{name}: {cell}" if name else cell)
    separator = _FIELDS if known else _COLUMNS
    for group in _groups(fields, room=BLOCK_BYTES, most=len(fields)):
        yield separator.join(group)


def _groups(lines: Iterable[str], *, room: int, most: int = ROWS_PER_BLOCK) -> Iterator[list[str]]:
    """Runs of at most ``most`` lines and ``room`` bytes; a line that is larger is alone."""
    group: list[str] = []
    used = 0
    for line in lines:
        size = _size(line) + len(_FIELDS)
        if group and (len(group) == most or used + size > room):
            yield group
            group, used = [], 0
        group.append(line)
        used += size
    if group:
        yield group


def _size(line: str) -> int:
    return len(line) if line.isascii() else len(line.encode("utf-8", "surrogatepass"))


def _cells(row: Row) -> list[str]:
    """The cells on one line each, without empty ones at the end."""
    cells = [one_line(cell) for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _without_empty_columns(rows: list[list[str]]) -> list[list[str]]:
    width = max(map(len, rows), default=0)
    kept = [place for place in range(width) if any(place < len(row) and row[place] for row in rows)]
    return rows if len(kept) == width else [[row[place] for place in kept if place < len(row)] for row in rows]
