"""The smallest pieces a chunk is built of: sentences, lines, table rows; longer ones are cut between tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from rag.core.ports import Tokenizer
from rag.core.types import Block, ParsedDocument

_WINDOW_CHARACTERS = 16_384
_LOOK_BACK = 4

_CLOSERS = "\"'”’」』）)\\]】》"
# A full stop after a single capital letter belongs to an initial or an abbreviation such as "U.S.".
_BOUNDARY = re.compile(
    rf"(?P<paragraph>\n\s*\n)|(?P<line>\n)|[。！？；｡]+[{_CLOSERS}]*|(?<!\b[A-Z])[.!?…]+[{_CLOSERS}]*(?=\s)",
)


class Break(IntEnum):
    """How strongly the text breaks before a segment."""

    TOKEN = 0
    SENTENCE = 1
    LINE = 2
    PARAGRAPH = 3
    BLOCK = 4


@dataclass(frozen=True, slots=True)
class Segment:
    """``text[start:end]``, without outer white space, within one block, of ``tokens`` tokens (at least one)."""

    start: int
    end: int
    tokens: int
    before: Break
    block: Block


Piece: TypeAlias = tuple[int, int, Break, Block]
"""Start, end, the break before it, and the block it is in."""


def segments(document: ParsedDocument, tokenizer: Tokenizer, *, max_tokens: int) -> Iterator[Segment]:
    """All segments in order; together they cover all of the text but white space."""
    text = document.text
    for window in _windows(text, document.blocks):
        start, end = window[0][0], window[-1][1]
        offsets = tokenizer.offsets(text[start:end])
        token = 0
        for piece_start, piece_end, before, block in window:
            first = token
            while token < len(offsets) and offsets[token][0] + start < piece_end:
                token += 1
            if token - first <= max_tokens:
                yield Segment(piece_start, piece_end, max(token - first, 1), before, block)
            else:
                starts = [piece_start, *(offsets[place][0] + start for place in range(first + 1, token))]
                yield from _cut(text, starts, (piece_start, piece_end, before, block), max_tokens=max_tokens)


def _windows(text: str, blocks: Sequence[Block]) -> Iterator[list[Piece]]:
    window: list[Piece] = []
    for block in blocks:
        for piece in _pieces(text, block):
            if window and piece[1] - window[0][0] > _WINDOW_CHARACTERS:
                yield window
                window = []
            window.append(piece)
    if window:
        yield window


def _pieces(text: str, block: Block) -> Iterator[Piece]:
    before = Break.BLOCK
    start = block.start
    for boundary in _BOUNDARY.finditer(text, block.start, block.end):
        yield from _trimmed(text, start, boundary.end(), before, block)
        if text[start : boundary.end()].strip():
            before = Break.SENTENCE
        if boundary["paragraph"] is not None:
            before = max(before, Break.PARAGRAPH)
        elif boundary["line"] is not None:
            before = max(before, Break.LINE)
        start = boundary.end()
    yield from _trimmed(text, start, block.end, before, block)


def _trimmed(text: str, start: int, end: int, before: Break, block: Block) -> Iterator[Piece]:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        start += len(piece) - len(piece.lstrip())
        yield start, start + len(stripped), before, block


def _cut(text: str, starts: Sequence[int], piece: Piece, *, max_tokens: int) -> Iterator[Segment]:
    """A piece of too many tokens, cut where a token begins, after white space where some is near."""
    _, end, before, block = piece
    first = 0
    while first < len(starts):
        last = _cut_place(text, starts, first, min(first + max_tokens, len(starts)))
        piece_end = starts[last] if last < len(starts) else end
        for start, stripped_end, *_ in _trimmed(text, starts[first], piece_end, before, block):
            yield Segment(start, stripped_end, last - first, before, block)
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
    return last
