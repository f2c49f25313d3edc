"""Chunks by structure: sections are kept apart, then blocks, paragraphs, lines, sentences, at last tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ingest.chunking.fitting import CONTEXT_TOKENS, MARGIN_TOKENS, chunks_of
from ingest.chunking.packing import Packer
from ingest.chunking.segments import Segment, segments
from ingest.chunking.tokens import token_starts
from rag.core.ports import Tokenizer
from rag.core.types import Chunk, ParsedDocument


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
        target = max(self._max - CONTEXT_TOKENS, 1)
        pieces = segments(document, token_starts(document.text, self._tokenizer), max_tokens=target)
        groups = self._groups(pieces, target)
        return list(chunks_of(document.text, groups, self._tokenizer, max_tokens=self._max))

    def _groups(self, pieces: Iterator[Segment], target: int) -> Iterator[list[Segment]]:
        """Segments gathered into chunks, with the overlap in front."""
        packer = Packer(max_tokens=target, min_tokens=self._min, overlap_tokens=self._overlap)
        for piece in pieces:
            yield from packer.add(piece)
        yield from packer.finish()
