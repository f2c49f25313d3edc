"""Text laid out by display width: a Chinese character takes two columns of a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

GAP = "  "
_ELLIPSIS = "…"


def width(text: str) -> int:
    """Columns that ``text`` takes; combining and format characters take none."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """Fill ``text`` with spaces up to ``columns``; on its left when it is to stand at the right."""
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space


def shorten(text: str, columns: int) -> str:
    """Return ``text`` on one line of at most ``columns`` columns."""
    flat = printable(" ".join(text.split()))
    if width(flat) <= columns:
        return flat
    kept, used = [], width(_ELLIPSIS)
    for character in flat:
        used += _columns(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept).rstrip() + _ELLIPSIS


def printable(text: str) -> str:
    """Replace control characters, so that a document cannot move the cursor or recolour the terminal."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text
    )


def counted(count: int, things: str) -> str:
    """Return how many: ``things`` is a plural in ``s``, which one of them loses."""
    return f"{count} {things.removesuffix('s') if count == 1 else things}"


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Lay rows out under headings; numbers stand at the right, ``None`` is shown as a dash."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(headings))]
    columns = [max(width(row[i]) for row in [headings, *cells]) for i in range(len(headings))]
    lines = [headings, ["-" * size for size in columns], *cells]
    return "\n".join(
        GAP.join(pad(text, columns[i], right=numeric[i]) for i, text in enumerate(line)).rstrip() for line in lines
    )


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else printable(" ".join(str(value).split()))
