"""Chunks by meaning: cut where neighbouring passages are least alike, at sizes near a target."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

from ingest.chunking.fitting import CONTEXT_TOKENS, MARGIN_TOKENS, chunks_of
from ingest.chunking.partition import Sizes, partition
from ingest.chunking.segments import Segment, segments
from ingest.chunking.similarity import Likeness, cut_costs
from ingest.chunking.tokens import batches, token_starts
from ingest.chunking.units import Run, runs
from rag.core.ports import Tokenizer
from rag.core.types import Chunk, ParsedDocument, Vectors

TARGET = 0.8
"""The size of a chunk that costs nothing, as a share of the largest."""

UNITS_AT_ONCE = 256

Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[Vectors]]
"""Texts of documents to vectors of unit length, shape ``(len(texts), dimension)``."""


class SemanticChunker:
    """Implements ``Chunker``. A chunk has at most ``max_tokens - margin_tokens`` tokens of the tokenizer.

    Whole sentences are gathered to units of a few dozen tokens, which are embedded in batches, each once. Within
    a section (and apart from its tables) the cuts are those of least total cost: a cut is cheap where the units
    before it are unlike those after it and where a paragraph ends, a chunk is cheap near its target size. Pieces
    below ``min_tokens`` join a neighbour where there is room, if need be across sections, but never across pages.
    Time and memory are linear in the text; vectors are forgotten once they are compared.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        embed: Embed,
        *,
        max_tokens: int,
        min_tokens: int,
        margin_tokens: int = MARGIN_TOKENS,
    ) -> None:
        """Raises ``ValueError`` unless the minimum leaves room below the maximum."""
        self._tokenizer = tokenizer
        self._embed = embed
        self._max = max_tokens - margin_tokens
        if not 0 < min_tokens <= self._max:
            raise ValueError("the chunk bounds leave no room")
        most = max(self._max - CONTEXT_TOKENS, 1)
        target = max(round(most * TARGET), 1)
        self._sizes = Sizes(least=min(min_tokens, most), target=target, most=most)

    async def chunk(self, document: ParsedDocument) -> list[Chunk]:
        """Chunks in order of the text. Raises what the embedder raises; all but embedding is done in threads."""
        sections = await asyncio.to_thread(self._sections, document)
        likeness = await self._compare(document.text, sections)
        return await asyncio.to_thread(self._chunks, document.text, sections, likeness)

    def _sections(self, document: ParsedDocument) -> list[Run]:
        starts = token_starts(document.text, self._tokenizer)
        return list(runs(segments(document, starts, max_tokens=self._sizes.most)))

    async def _compare(self, text: str, sections: Sequence[Run]) -> Likeness:
        """How alike the units are that may be parted."""
        likeness = Likeness()
        units = (unit for section in sections if self._divisible(section) for unit in section)
        for batch in batches(units, UNITS_AT_ONCE):
            likeness.add(await self._embed([text[unit.start : unit.end] for unit in batch]))
        return likeness

    def _divisible(self, section: Run) -> bool:
        """Whether it is large enough to be cut at all."""
        return len(section) > 1 and sum(unit.tokens for unit in section) > self._sizes.target

    def _chunks(self, text: str, sections: Sequence[Run], likeness: Likeness) -> list[Chunk]:
        divided = [section for section in sections if self._divisible(section)]
        costs = iter(cut_costs(divided, likeness))
        groups = (
            group
            for section in sections
            for group in (self._divide(section, next(costs)) if self._divisible(section) else [section])
        )
        joined = _joined(groups, self._sizes)
        return list(chunks_of(text, joined, self._tokenizer, max_tokens=self._max))

    def _divide(self, section: Run, costs: Sequence[float]) -> Iterator[Run]:
        for first, last in partition([unit.tokens for unit in section], costs, self._sizes):
            yield section[first:last]


def _joined(groups: Iterator[Run], sizes: Sizes) -> Iterator[Run]:
    """The groups, those that are too small joined to a neighbour on their page where there is room."""
    held: list[Segment] = []
    for group in groups:
        if held and _belongs(held, group, sizes):
            held = [*held, *group]
            continue
        if held:
            yield held
        held = list(group)
    if held:
        yield held


def _belongs(held: Run, group: Run, sizes: Sizes) -> bool:
    before, after = (sum(unit.tokens for unit in each) for each in (held, group))
    small = min(before, after) < sizes.least
    return small and before + after <= sizes.most and held[-1].block.page == group[0].block.page
