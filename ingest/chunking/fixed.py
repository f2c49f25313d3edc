"""Chunks of equally many tokens, whatever the text says there; what the other chunkers are compared with."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, groupby

from ingest.chunking.fitting import CONTEXT_TOKENS, MARGIN_TOKENS, Group, chunks_of
from ingest.chunking.segments import Segment
from ingest.chunking.sentences import Break, trimmed
from ingest.chunking.tokens import Starts, token_starts
from rag.core.ports import Tokenizer
from rag.core.types import Block, Chunk, ParsedDocument


class FixedChunker:
    """Implements ``Chunker``: windows of ``max_tokens - margin_tokens`` tokens, each ``overlap_tokens`` into the last.

    The last window of a page is moved back where it would be smaller than ``min_tokens``. No window crosses a page.
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
        self._size = max(self._max - CONTEXT_TOKENS, 1)
        self._overlap = overlap_tokens
        if not 0 < min_tokens <= self._max or not 0 <= overlap_tokens < self._size:
            raise ValueError("the chunk bounds leave no room")

    async def chunk(self, document: ParsedDocument) -> list[Chunk]:
        """Chunks in order of the text; the work is done in a thread."""
        return await asyncio.to_thread(self._chunk, document)

    def _chunk(self, document: ParsedDocument) -> list[Chunk]:
        starts = token_starts(document.text, self._tokenizer)
        windows = self._windows(document, starts)
        return list(chunks_of(document.text, windows, self._tokenizer, max_tokens=self._max))

    def _windows(self, document: ParsedDocument, starts: Starts) -> Iterator[Group]:
        for _, blocks in groupby(document.blocks, key=lambda block: block.page):
            yield from self._page(document.text, list(blocks), starts)

    def _page(self, text: str, blocks: Sequence[Block], starts: Starts) -> Iterator[Group]:
        first, last = (int(each) for each in starts.searchsorted((blocks[0].start, blocks[-1].end)))
        begun, ended = -1, blocks[0].start
        for begin, end in self._cuts(starts, first, last):
            start = int(starts[begin]) if begin > first else blocks[0].start
            span = trimmed(text, start, int(starts[end]) if end < last else blocks[-1].end)
            if span is None or span[1] <= ended:
                continue
            if span[0] <= begun:
                span = trimmed(text, ended, span[1]) or span
            begun, ended = span
            block = blocks[bisect_right(blocks, begun, key=lambda each: each.start) - 1]
            yield [Segment(begun, ended, end - begin, Break.TOKEN, block)]

    def _cuts(self, starts: Starts, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The first token of each window and the one after its last; at least one window, if an empty one."""
        begin, end = first, first
        while True:
            end = _between_characters(starts, min(begin + self._size, last), after=max(begin, end), last=last)
            yield begin, end
            if end >= last:
                return
            short = last - end < self._min
            back = last - self._size if short else end - self._overlap
            begin = _between_characters(starts, min(back, end), after=begin, last=end)


def _between_characters(starts: Starts, place: int, *, after: int, last: int) -> int:
    """The token nearest to ``place``, above ``after``, that begins a character; ``last`` where there is none."""
    nearest = chain(range(place, after, -1), range(max(place, after) + 1, last))
    return next((each for each in nearest if each >= last or starts[each] > starts[each - 1]), last)
