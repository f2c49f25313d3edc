"""Semantic chunks part where the subject changes, and embed in batches, each text once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ingest.chunking import SemanticChunker
from ingest.chunking.semantic import UNITS_AT_ONCE
from rag.core.errors import EmbeddingError
from rag.core.types import Chunk, ParsedDocument, Vectors
from rag.embedding import HashEmbedder
from tests.unit.ingest.chunking.documents import WordTokens, document_of

SHIPS = "The old ship lay at anchor in the quiet harbour while the crew of the ship slept below. "
TAXES = "Every tax return names the income, and the tax office checks the income against its list. "


class Recorder:
    """The hash embedder, with the batches that it was given."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.batches.append(list(texts))
        return await HashEmbedder(256).embed(texts, kind="document")


async def chunks_of(document: ParsedDocument, recorder: Recorder, **bounds: int) -> list[Chunk]:
    limits = {"max_tokens": 250, "min_tokens": 20, "margin_tokens": 0} | bounds
    return await SemanticChunker(WordTokens(), recorder.embed, **limits).chunk(document)


async def test_a_document_is_parted_where_its_subject_changes() -> None:
    chunks = await chunks_of(document_of(("text", SHIPS * 9 + TAXES * 9)), Recorder())

    assert len(chunks) > 1
    assert not any("ship" in chunk.text and "tax" in chunk.text for chunk in chunks)


async def test_each_unit_is_embedded_once_in_full_batches() -> None:
    text = "".join(f"Sentence {place} speaks of nothing but the number {place}. " * 4 for place in range(400))
    recorder = Recorder()

    await chunks_of(document_of(("text", text)), recorder)

    assert [len(batch) for batch in recorder.batches[:-1]] == [UNITS_AT_ONCE] * (len(recorder.batches) - 1)
    assert sum(len(unit.split()) for batch in recorder.batches for unit in batch) == len(text.split())


async def test_what_is_not_cut_is_not_embedded() -> None:
    recorder = Recorder()

    chunks = await chunks_of(document_of(("heading", "Ships"), ("text", SHIPS)), recorder)

    assert len(chunks) == 1
    assert recorder.batches == []


async def test_chinese_is_parted_after_its_sentences() -> None:
    text = "船停在安静的港口里，水手们睡着了。" * 15 + "税务局每年都会检查收入和税款。" * 15

    chunks = await chunks_of(document_of(("text", text)), Recorder(), max_tokens=150)

    assert all(chunk.text.endswith("。") for chunk in chunks)


async def test_sections_are_kept_apart_and_small_ones_join() -> None:
    document = document_of(("heading", "A"), ("text", SHIPS * 2), ("heading", "B"), ("text", "Short."))

    chunks = await chunks_of(document, Recorder(), max_tokens=60)

    assert [chunk.headings for chunk in chunks] == [("A",)]


async def test_an_embedder_that_fails_fails_the_chunking() -> None:
    async def embed(texts: Sequence[str]) -> Vectors:
        raise EmbeddingError(f"{len(texts)} texts are too many")

    chunker = SemanticChunker(WordTokens(), embed, max_tokens=100, min_tokens=10)

    with pytest.raises(EmbeddingError):
        await chunker.chunk(document_of(("text", SHIPS * 20)))


def test_a_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(ValueError, match="room"):
        SemanticChunker(WordTokens(), Recorder().embed, max_tokens=20, min_tokens=15)
