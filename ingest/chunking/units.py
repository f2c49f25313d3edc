"""What is compared when a document is cut by meaning: whole sentences, gathered to a few dozen tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from ingest.chunking.segments import Segment
from ingest.chunking.sentences import Break

UNIT_TOKENS = 64
"""Enough for a passage to have a subject; each token of a document is embedded once in a unit."""

Run: TypeAlias = Sequence[Segment]
"""Units of one section, page and kind, in order; never empty."""


def runs(pieces: Iterable[Segment], *, unit_tokens: int = UNIT_TOKENS) -> Iterator[Run]:
    """The segments as units, in runs that a chunk does not leave without need."""
    for _, section in groupby(pieces, key=_place):
        yield list(_units(section, unit_tokens))


def _place(piece: Segment) -> tuple[int | None, tuple[str, ...], bool]:
    return piece.block.page, piece.block.headings, piece.block.kind == "table"


def _units(pieces: Iterable[Segment], most: int) -> Iterator[Segment]:
    """Neighbours joined while they are small; a paragraph that fills half a unit ends it."""
    gathered: list[Segment] = []
    total = 0
    for piece in pieces:
        ends = piece.before >= Break.PARAGRAPH and total >= most // 2
        if gathered and (ends or total + piece.tokens > most):
            yield _unit(gathered, total)
            gathered, total = [], 0
        gathered.append(piece)
        total += piece.tokens
    if gathered:
        yield _unit(gathered, total)


def _unit(pieces: Sequence[Segment], tokens: int) -> Segment:
    return Segment(pieces[0].start, pieces[-1].end, tokens, pieces[0].before, pieces[0].block)
