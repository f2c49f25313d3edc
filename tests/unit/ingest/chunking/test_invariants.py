"""Whatever the chunker and the language: bounded slices in order that cover the text and stay on their page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.chunking import FixedChunker, HeadedChunker, RecursiveChunker, SemanticChunker
from rag.core.ports import Chunker, Tokenizer
from rag.core.types import ParsedDocument, Vectors
from rag.embedding import HashEmbedder
from tests.unit.ingest.chunking.documents import PairTokens, WordTokens, documents, uncovered

MARGIN = 3


async def embed(texts: Sequence[str]) -> Vectors:
    return await HashEmbedder(16).embed(texts, kind="document")


def chunker_of(kind: str, tokenizer: Tokenizer, *, most: int, least: int, overlap: int) -> Chunker:
    bounds = {"max_tokens": most + MARGIN, "min_tokens": least, "margin_tokens": MARGIN}
    match kind:
        case "semantic":
            return SemanticChunker(tokenizer, embed, **bounds)
        case "fixed":
            return FixedChunker(tokenizer, **bounds, overlap_tokens=min(overlap, max(most - 3, 0)))
        case _:
            return RecursiveChunker(tokenizer, **bounds, overlap_tokens=overlap)


@pytest.mark.parametrize("tokenizer", [WordTokens(), PairTokens()], ids=["words", "pairs"])
@pytest.mark.parametrize("kind", ["recursive", "semantic", "fixed"])
@settings(max_examples=80, deadline=None)
@given(document=documents(), bounds=st.tuples(st.integers(4, 60), st.integers(1, 4), st.integers(0, 3)))
async def test_chunks_are_bounded_ordered_slices_that_cover_the_text(
    kind: str, tokenizer: Tokenizer, document: ParsedDocument, bounds: tuple[int, int, int]
) -> None:
    most, least, overlap = bounds
    chunker = chunker_of(kind, tokenizer, most=most, least=least, overlap=overlap)

    chunks = await chunker.chunk(document)

    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert all(document.text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert all(chunk.text == chunk.text.strip() != "" for chunk in chunks)
    assert all(len(spans) <= most for spans in tokenizer.spans([chunk.text for chunk in chunks]))
    assert all(before.start < after.start and before.end < after.end for before, after in pairwise(chunks))
    assert uncovered(document, chunks) == ""


@pytest.mark.parametrize("kind", ["recursive", "semantic", "fixed"])
@settings(max_examples=40, deadline=None)
@given(document=documents(), most=st.integers(4, 60))
async def test_a_chunk_lies_on_one_page(kind: str, document: ParsedDocument, most: int) -> None:
    chunker = chunker_of(kind, WordTokens(), most=most, least=4, overlap=0)

    chunks = await chunker.chunk(document)

    pages = [
        {block.page for block in document.blocks if block.start < chunk.end and chunk.start < block.end}
        for chunk in chunks
    ]
    assert all(found == {chunk.page} for found, chunk in zip(pages, chunks, strict=True))


@pytest.mark.parametrize("kind", ["recursive", "semantic"])
@settings(max_examples=40, deadline=None)
@given(document=documents(), least=st.integers(1, 12))
async def test_a_chunk_leaves_its_section_only_where_a_part_would_be_too_small(
    kind: str, document: ParsedDocument, least: int
) -> None:
    tokenizer = WordTokens()

    chunks = await chunker_of(kind, tokenizer, most=40, least=least, overlap=0).chunk(document)

    for chunk in chunks:
        crossed = [block for block in document.blocks if block.start < chunk.end and chunk.start < block.end]
        inside = [document.text[max(b.start, chunk.start) : min(b.end, chunk.end)] for b in crossed]
        counts = np.array([len(spans) for spans in tokenizer.spans(inside)])
        sections = [block.headings for block in crossed]
        parts = [counts[[s == section for s in sections]].sum() for section in dict.fromkeys(sections)]
        assert len(parts) == 1 or min(parts) < least


@settings(max_examples=30, deadline=None)
@given(document=documents(), most=st.integers(1, 8))
async def test_headers_change_neither_text_nor_offsets_and_are_bounded(document: ParsedDocument, most: int) -> None:
    tokenizer = WordTokens()
    plain = chunker_of("recursive", tokenizer, most=40, least=2, overlap=0)

    chunks = await HeadedChunker(plain, tokenizer, header_tokens=most).chunk(document)

    assert [(c.text, c.start, c.end) for c in chunks] == [(c.text, c.start, c.end) for c in await plain.chunk(document)]
    assert all(len(spans) <= most for spans in tokenizer.spans([chunk.header for chunk in chunks]))
