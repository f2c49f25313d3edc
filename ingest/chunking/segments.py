"""The smallest pieces a chunk is built of: sentences, lines, tables; longer ones are cut between tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ingest.chunking.sentences import Break, sentences, trimmed
from ingest.chunking.tokens import Starts, batches
from rag.core.types import Block, ParsedDocument

_PIECES_AT_ONCE = 4096
_LOOK_BACK = 4
# What has no sentences is cut into grains of this share of a chunk, so that chunks of them can be filled well.
_GRAINS = 8


@dataclass(frozen=True, slots=True)
class Segment:
    """``text[start:end]``, without outer white space, of ``tokens`` tokens (at least one), begun in ``block``."""

    start: int
    end: int
    tokens: int
    before: Break
    block: Block


def segments(document: ParsedDocument, starts: Starts, *, max_tokens: int) -> Iterator[Segment]:
    """All segments in order, of at most ``max_tokens``; together they cover all of the text but white space.

    A table that fits is one segment, so that its rows keep their header. ``starts`` are those of the tokens.
    """
    for block, pieces in groupby(_sentences(document, starts, max_tokens=max_tokens), key=lambda each: each.block):
        if block.kind == "table":
            yield from _whole(pieces, max_tokens=max_tokens)
            continue
        yield from pieces


def _sentences(document: ParsedDocument, starts: Starts, *, max_tokens: int) -> Iterator[Segment]:
    text = document.text
    pieces = ((block, piece) for block in document.blocks for piece in sentences(text, block.start, block.end))
    first = 0
    for batch in batches(pieces, _PIECES_AT_ONCE):
        ends = np.searchsorted(starts, [end for _, (_, end, _) in batch]).tolist()
        for (block, (start, end, before)), last in zip(batch, ends, strict=True):
            segment = Segment(start, end, max(last - first, 1), before, block)
            if last - first <= max_tokens:
                yield segment
            else:
                yield from _cut(text, [start, *starts[first + 1 : last].tolist()], segment, max_tokens=max_tokens)
            first = last


def _whole(rows: Iterable[Segment], *, max_tokens: int) -> Iterator[Segment]:
    """The rows of a table as one segment, or as they are where they are too many tokens."""
    kept = list(rows)
    total = sum(row.tokens for row in kept)
    if total > max_tokens:
        yield from kept
    else:
        yield Segment(kept[0].start, kept[-1].end, total, kept[0].before, kept[0].block)


def _cut(text: str, starts: Sequence[int], whole: Segment, *, max_tokens: int) -> Iterator[Segment]:
    """A piece of too many tokens, cut where a token begins, after white space where some is near."""
    grain = max(max_tokens // _GRAINS, 1)
    before = whole.before
    first = 0
    while first < len(starts):
        last = _cut_place(text, starts, first, min(first + grain, len(starts)))
        span = trimmed(text, starts[first], starts[last] if last < len(starts) else whole.end)
        if span is not None:
            yield Segment(*span, last - first, before, whole.block)
            before = Break.TOKEN
        first = last


def _cut_place(text: str, starts: Sequence[int], first: int, last: int) -> int:
    """The token to cut before, at most ``last``; never within a character, never without progress."""
    if last >= len(starts):
        return last
    for place in range(last, max(first, last - (last - first) // _LOOK_BACK), -1):
        if text[starts[place]].isspace() or text[starts[place] - 1].isspace():
            return place
    for place in range(last, first, -1):
        if starts[place] > starts[place - 1]:
            return place
    return next((place for place in range(last, len(starts)) if starts[place] > starts[place - 1]), len(starts))
