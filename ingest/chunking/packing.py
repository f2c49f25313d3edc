"""Segments gathered into chunks of a bounded size, cut at the strongest break there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ingest.chunking.segments import Segment

_HALF_FULL = 0.5


class Packer:
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
        """Take the next segment; yields the chunks that it completes."""
        if self._open and not self._continues(piece):
            yield from self._close(len(self._open))
            self._reopen([])
        if self._total + piece.tokens > self._max:
            yield from self._overflow(piece)
        self._open.append(piece)
        self._total += piece.tokens

    def finish(self) -> Iterator[list[Segment]]:
        """Yield what is left."""
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
        self._open, self._total, self._repeated = pieces, tokens_of(pieces), repeated

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
        if small[0].block.page != self._held[-1].block.page or tokens_of(small) >= self._min:
            return False
        return tokens_of(self._held) + tokens_of(small) <= self._max


def tokens_of(pieces: Sequence[Segment]) -> int:
    """Tokens of all of them."""
    return sum(piece.tokens for piece in pieces)
