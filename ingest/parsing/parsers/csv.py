"""CSV: each row becomes a line ``name: value; …``, so that every piece of the file carries its header."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from ingest.parsing.assembly import Assembly
from ingest.parsing.cleaning import one_line
from ingest.parsing.encodings import decode_plain
from ingest.parsing.tables import add_rows, plain_line
from rag.core.errors import ParseError
from rag.core.media import CSV
from rag.core.types import ParsedDocument

DELIMITERS = (",", ";", "\t", "|")
_SNIFFED_ROWS = 50
_TITLE_ROWS = 5
_FIELD_CHARACTERS = 16 * 2**20
_NUMBER = re.compile(r"[-+]?[\d.,\s%€$£¥]*\d[\d.,\s%€$£¥]*")


class CsvParser:
    """Reads delimited tables: comma, semicolon, tab or bar; ragged rows are kept as they are."""

    name: ClassVar[str] = "csv"
    media_types: ClassVar[frozenset[str]] = frozenset({CSV})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``undecodable``, ``malformed``."""
        decoded = decode_plain(content)
        rows = _rows(decoded.text)
        header = _header(rows)
        assembly = Assembly()
        for row in rows[: header or 0]:
            assembly.add(plain_line(row))
        names = [one_line(name) for name in rows[header]] if header is not None else []
        body = rows[header + 1 :] if header is not None else rows
        if names and not body:
            assembly.add(plain_line(names), kind="table")
        add_rows(assembly, names, body)
        title = plain_line(rows[0]) if header else None
        parsed = assembly.document(title=title, encoding=decoded.encoding)
        return parsed if title else replace(parsed, title=None)


def _rows(text: str) -> list[list[str]]:
    csv.field_size_limit(_FIELD_CHARACTERS)
    try:
        return [
            row
            for row in csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
            if any(map(str.strip, row))
        ]
    except csv.Error as error:
        raise ParseError(f"the table cannot be read: {error}", code="malformed") from error


def _delimiter(text: str) -> str:
    """The delimiter that cuts most rows into the same number (above one) of fields; comma if none does."""
    return max(DELIMITERS, key=lambda delimiter: _regularity(text, delimiter))


def _regularity(text: str, delimiter: str) -> tuple[float, int]:
    widths: Counter[int] = Counter()
    try:
        for _, row in zip(
            range(_SNIFFED_ROWS), csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), strict=False
        ):
            widths[len(row)] += 1
    except csv.Error:
        return (0.0, 0)
    width, rows = max(widths.items(), key=lambda pair: (pair[0] > 1, pair[1])) if widths else (0, 0)
    return (rows / widths.total(), width) if width > 1 else (0.0, 0)


def _header(rows: Sequence[Sequence[str]]) -> int | None:
    """Index of the header: the first full row of names, which a title row may come before; ``None`` without."""
    if not rows:
        return None
    usual = Counter(_filled(row) for row in rows[:_SNIFFED_ROWS]).most_common(1)[0][0]
    for index, row in enumerate(rows[:_TITLE_ROWS]):
        if _filled(row) >= usual or _filled(row) == len(row) > 1:
            named = [cell.strip() for cell in row if cell.strip()]
            numbers = sum(_NUMBER.fullmatch(cell) is not None for cell in named)
            return index if numbers * 2 < len(named) and len(set(named)) * 2 > len(named) else None
    return None


def _filled(row: Sequence[str]) -> int:
    return sum(bool(cell.strip()) for cell in row)
