"""Chunks by structure: sections are kept apart, then blocks, paragraphs, lines, sentences, at last tokens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ingest.chunking.segments import Break, Segment, segments
from rag.core.ports import Tokenizer
from rag.core.types import Chunk, ParsedDocument

MARGIN_TOKENS = 8
"""Room for what the embedder adds around a text: special tokens and a prefix such as ``passage:``."""

_HALF_FULL = 0.5
# A chunk may have a token more than its parts had where they stood, such as the mark of a word's beginning.
_CONTEXT_TOKENS = 2


class RecursiveChunker:
    """Implements ``Chunker``. A chunk has at most ``max_tokens - margin_tokens`` tokens of the tokenizer.

    Pieces below ``min_tokens`` join a neighbour where there is room, if need be across sections, but never
    across pages: a citation names the page of its chunk. A chunk that continues a section repeats whole
    sentences of at most ``overlap_tokens`` from the one before.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_tokens: int,
        min_tokens: int,
        overlap_tokens: int,
        margin_tokens: int = MARGIN_TOKENS,
    ) -> None:
        """Raises ``ValueError`` unless minimum and overlap leave room below the maximum."""
        self._tokenizer = tokenizer
        self._max = max_tokens - margin_tokens
        self._min = min_tokens
        self._overlap = overlap_tokens
        if not 0 < min_tokens <= self._max or not 0 <= overlap_tokens < self._max:
            raise ValueError("the chunk bounds leave no room")

    async def chunk(self, document: ParsedDocument) -> list[Chunk]:
        """Chunks in order of the text; the work is done in a thread."""
        return await asyncio.to_thread(self._chunk, document)

    def _chunk(self, document: ParsedDocument) -> list[Chunk]:
        target = max(self._max - _CONTEXT_TOKENS, 1)
        groups = self._groups(segments(document, self._tokenizer, max_tokens=target), target)
        chunks: list[Chunk] = []
        for group in groups:
            for part in self._fitting(document.text, group):
                chunks.append(_chunk_of(document.text, part, index=len(chunks)))
        return chunks

    def _groups(self, pieces: Iterator[Segment], target: int) -> Iterator[list[Segment]]:
        """Segments gathered into chunks, with the overlap in front."""
        packer = _Packer(max_tokens=target, min_tokens=self._min, overlap_tokens=self._overlap)
        for piece in pieces:
            yield from packer.add(piece)
        yield from packer.finish()

    def _fitting(self, text: str, group: list[Segment]) -> Iterator[list[Segment]]:
        """The group, or halves of it where the tokens of the whole are more than those of its parts."""
        start, end = group[0].start, group[-1].end
        if end - start <= 1 or len(self._tokenizer.offsets(text[start:end])) <= self._max:
            yield group
        elif len(group) > 1:
            middle = len(group) // 2
            yield from self._fitting(text, group[:middle])
            yield from self._fitting(text, group[middle:])
        else:
            yield from self._fitting(text, _halves(text, group[0]))


def _halves(text: str, piece: Segment) -> list[Segment]:
    """A segment in two; a single character has no halves and counts as fitting."""
    middle = (piece.start + piece.end) // 2
    left, right = text[piece.start : middle].rstrip(), text[middle : piece.end].lstrip()
    return [
        replace(piece, end=piece.start + len(left), tokens=piece.tokens // 2),
        replace(piece, start=piece.end - len(right), tokens=piece.tokens // 2, before=Break.TOKEN),
    ]


class _Packer:
    """Gathers segments; gives a chunk away once the next segment does not belong to it or does not fit.

    The last chunk is held back, so that a small one that follows can still join it. The first
    ``_repeated`` open segments are the overlap with the chunk before.
    """

    def __init__(self, *, max_tokens: int, min_tokens: int, overlap_tokens: int) -> None:
        self._max = max_tokens
        self._min = min_tokens
        self._overlap = overlap_tokens
        self._open: list[Segment] = []
        self._total = 0
        self._repeated = 0
        self._held: list[Segment] = []

    def add(self, piece: Segment) -> Iterator[list[Segment]]:
        if self._open and not self._continues(piece):
            yield from self._close(len(self._open))
            self._reopen([])
        if self._total + piece.tokens > self._max:
            yield from self._overflow(piece)
        self._open.append(piece)
        self._total += piece.tokens

    def finish(self) -> Iterator[list[Segment]]:
        yield from self._close(len(self._open))
        if self._held:
            yield self._held

    def _continues(self, piece: Segment) -> bool:
        last = self._open[-1].block
        if piece.block.page != last.page:
            return False
        small = self._total < self._min and self._total + piece.tokens <= self._max
        return piece.block.headings == last.headings or small

    def _overflow(self, piece: Segment) -> Iterator[list[Segment]]:
        """Close the open chunk at its best break and carry the rest, or the overlap, over."""
        cut = self._best_cut(piece)
        rest, closed = self._open[cut:], self._open[:cut]
        yield from self._close(cut)
        overlap = [] if rest else self._repeatable(closed, piece)
        self._reopen(rest or overlap, repeated=len(overlap))
        if self._total + piece.tokens > self._max:
            yield from self._close(len(self._open))
            self._reopen([])

    def _reopen(self, pieces: list[Segment], *, repeated: int = 0) -> None:
        self._open, self._total, self._repeated = pieces, _tokens(pieces), repeated

    def _best_cut(self, piece: Segment) -> int:
        """Index of the open segment to cut before, or their number: the strongest break, the latest of equals."""
        best, strongest = len(self._open), piece.before
        tokens = self._total
        for index in range(len(self._open) - 1, self._repeated, -1):
            tokens -= self._open[index].tokens
            if tokens < self._max * _HALF_FULL:
                break
            if self._open[index].before > strongest:
                best, strongest = index, self._open[index].before
        return best

    def _repeatable(self, closed: Sequence[Segment], piece: Segment) -> list[Segment]:
        repeated: list[Segment] = []
        tokens = 0
        for each in reversed(closed[1:]):
            tokens += each.tokens
            alike = each.block.headings == piece.block.headings and each.block.kind == piece.block.kind == "text"
            if tokens > self._overlap or not alike:
                break
            repeated.append(each)
        return repeated[::-1]

    def _close(self, count: int) -> Iterator[list[Segment]]:
        """Hold the first ``count`` open segments back as a chunk, and give the one held before away.

        Nothing is closed if all of them are overlap.
        """
        closed = self._open[:count]
        fresh = closed[self._repeated :]
        if not fresh:
            return
        if self._held and self._joins(fresh):
            self._held = [*self._held, *fresh]
            return
        if self._held:
            yield self._held
        self._held = closed

    def _joins(self, small: Sequence[Segment]) -> bool:
        if small[0].block.page != self._held[-1].block.page or _tokens(small) >= self._min:
            return False
        return _tokens(self._held) + _tokens(small) <= self._max


def _tokens(pieces: Sequence[Segment]) -> int:
    return sum(piece.tokens for piece in pieces)


def _chunk_of(text: str, group: Sequence[Segment], *, index: int) -> Chunk:
    weights: Counter[tuple[str, ...]] = Counter()
    for piece in group:
        weights[piece.block.headings] += piece.tokens
    start, end = group[0].start, group[-1].end
    return Chunk(
        index=index,
        text=text[start:end],
        start=start,
        end=end,
        page=group[0].block.page,
        headings=weights.most_common(1)[0][0],
    )
