"""From groups of segments to chunks: counted as a whole, halved where they are too long, and cut out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ingest.chunking.segments import Segment
from ingest.chunking.sentences import Break
from ingest.chunking.tokens import batches
from rag.core.ports import Tokenizer
from rag.core.types import Chunk

MARGIN_TOKENS = 8
"""Room for what the embedder adds around a text: special tokens and a prefix such as ``passage:``."""

CONTEXT_TOKENS = 2
"""How many tokens a chunk may have more than its parts had where they stood, such as the mark of a word's beginning."""

_GROUPS_AT_ONCE = 256

Group: TypeAlias = Sequence[Segment]


def chunks_of(text: str, groups: Iterable[Group], tokenizer: Tokenizer, *, max_tokens: int) -> Iterator[Chunk]:
    """A chunk for each group, or several where it has more than ``max_tokens`` as the tokenizer reads it alone."""
    index = 0
    for batch in batches(groups, _GROUPS_AT_ONCE):
        for group in _fitting(text, batch, tokenizer, max_tokens):
            yield _chunk(text, group, index=index)
            index += 1


def _fitting(text: str, groups: Sequence[Group], tokenizer: Tokenizer, most: int) -> Iterator[Group]:
    counted = tokenizer.spans([text[group[0].start : group[-1].end] for group in groups])
    for group, spans in zip(groups, counted, strict=True):
        if len(spans) <= most or group[-1].end - group[0].start <= 1:
            yield group
        else:
            yield from _fitting(text, _halves(text, group), tokenizer, most)


def _halves(text: str, group: Group) -> list[Group]:
    """Half of the segments each, or of the characters of a single one."""
    if len(group) > 1:
        middle = len(group) // 2
        return [group[:middle], group[middle:]]
    piece = group[0]
    middle = (piece.start + piece.end) // 2
    left, right = text[piece.start : middle].rstrip(), text[middle : piece.end].lstrip()
    return [
        [replace(piece, end=piece.start + len(left), tokens=piece.tokens // 2)],
        [replace(piece, start=piece.end - len(right), tokens=piece.tokens // 2, before=Break.TOKEN)],
    ]


def _chunk(text: str, group: Group, *, index: int) -> Chunk:
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
