"""Sentences of any script, and the lines and paragraphs they stand in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import TypeAlias


class Break(IntEnum):
    """How strongly the text breaks before a piece."""

    TOKEN = 0
    SENTENCE = 1
    LINE = 2
    PARAGRAPH = 3
    BLOCK = 4


Piece: TypeAlias = tuple[int, int, Break]
"""Start, end, and the break before it; without outer white space."""

_CLOSERS = "\"'”’»›」』）)\\]】》〉"
# These end a sentence wherever they stand: full-width marks, dandas, and the full stops of Arabic, Urdu,
# Ethiopic, Burmese, Khmer and Tibetan.
_ALWAYS = "。！？；｡．।॥؟۔።፧။។༎"
# A full stop after a single capital letter belongs to an initial or an abbreviation such as "U.S.".
_BOUNDARY = re.compile(
    rf"(?P<paragraph>\n[^\S\n]*\n\s*)|(?P<line>\n)|[{_ALWAYS}]+[{_CLOSERS}]*"
    rf"|[!?…։]+[{_CLOSERS}]*(?=\s)|(?<!\b[A-Z])\.+[{_CLOSERS}]*(?=\s)",
)


def sentences(text: str, start: int, end: int) -> Iterator[Piece]:
    """The pieces of ``text[start:end]`` in order; together they cover all of it but white space."""
    before = Break.BLOCK
    place = start
    for boundary in _BOUNDARY.finditer(text, start, end):
        piece = trimmed(text, place, boundary.end())
        if piece is not None:
            yield *piece, before
            before = Break.SENTENCE
        if boundary["paragraph"] is not None:
            before = max(before, Break.PARAGRAPH)
        elif boundary["line"] is not None:
            before = max(before, Break.LINE)
        place = boundary.end()
    piece = trimmed(text, place, end)
    if piece is not None:
        yield *piece, before


def trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The span without outer white space; ``None`` where nothing is left."""
    piece = text[start:end]
    stripped = piece.strip()
    if not stripped:
        return None
    start += len(piece) - len(piece.lstrip())
    return start, start + len(stripped)
