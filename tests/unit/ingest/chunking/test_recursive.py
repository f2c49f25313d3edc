"""Recursive chunks keep to the structure of their document."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ingest.chunking import RecursiveChunker
from ingest.parsing.assembly import Assembly
from rag.core.types import Chunk, ParsedDocument
from tests.unit.ingest.chunking.documents import WordTokens, document_of


async def chunks_of(document: ParsedDocument, **bounds: int) -> list[Chunk]:
    limits = {"max_tokens": 20, "min_tokens": 3, "overlap_tokens": 0, "margin_tokens": 0} | bounds
    return await RecursiveChunker(WordTokens(), **limits).chunk(document)


async def test_an_empty_document_has_no_chunks() -> None:
    assert await chunks_of(document_of()) == []


async def test_sections_are_kept_apart() -> None:
    document = document_of(
        ("heading", "Alpha"), ("text", "one two three four."), ("heading", "Beta"), ("text", "five six seven eight.")
    )

    chunks = await chunks_of(document)

    assert [chunk.headings for chunk in chunks] == [("Alpha",), ("Beta",)]
    assert chunks[1].text.startswith("Beta")


async def test_small_sections_join_a_neighbour() -> None:
    document = document_of(("heading", "A"), ("text", "x."), ("heading", "B"), ("text", "one two three four five."))

    chunks = await chunks_of(document, min_tokens=5)

    assert len(chunks) == 1
    assert chunks[0].headings == ("B",)


async def test_a_small_last_piece_joins_the_chunk_before_it() -> None:
    document = document_of(("text", "one two three four five six seven eight."), ("heading", "End"))

    chunks = await chunks_of(document, min_tokens=5)

    assert len(chunks) == 1


async def test_a_chunk_is_cut_at_a_paragraph_rather_than_at_a_sentence() -> None:
    document = document_of(("text", "a b c d e f g h i j k l."), ("text", "m n o p. q r s t. u v w x."))

    chunks = await chunks_of(document)

    assert chunks[0].text == "a b c d e f g h i j k l."


async def test_chinese_is_cut_after_its_sentences() -> None:
    document = document_of(("text", "今天天气很好，我们去公园。" * 6))

    chunks = await chunks_of(document, max_tokens=30)

    assert all(chunk.text.endswith("。") for chunk in chunks)


async def test_overlap_repeats_whole_sentences_of_the_same_section() -> None:
    document = document_of(("text", "one two three four. " * 12))

    chunks = await chunks_of(document, overlap_tokens=6)

    assert all(after.start < before.end for before, after in pairwise(chunks))
    assert all(chunk.text.startswith("one") for chunk in chunks)


@pytest.mark.parametrize("first", ["first", "first page words here."])
async def test_a_chunk_lies_on_one_page_however_small_it_is(first: str) -> None:
    assembly = Assembly()
    assembly.add(first, page=1)
    assembly.add("second", page=2)
    assembly.add("third page", page=3)

    chunks = await chunks_of(assembly.document(), min_tokens=8)

    assert [(chunk.page, chunk.text) for chunk in chunks] == [(1, first), (2, "second"), (3, "third page")]


async def test_a_long_word_run_is_cut_between_tokens() -> None:
    chunks = await chunks_of(document_of(("text", "word " * 100)))

    assert all(chunk.text.split() == ["word"] * len(chunk.text.split()) for chunk in chunks)


def test_bounds_without_room_are_refused() -> None:
    with pytest.raises(ValueError, match="room"):
        RecursiveChunker(WordTokens(), max_tokens=10, min_tokens=5, overlap_tokens=2, margin_tokens=8)


async def test_initials_and_abbreviations_do_not_end_a_sentence() -> None:
    document = document_of(
        ("text", "In the U.S. Thomas J. Watson led it for years. Then he left the firm. And it went on.")
    )

    chunks = await chunks_of(document, max_tokens=18, min_tokens=1)

    assert chunks[0].text == "In the U.S. Thomas J. Watson led it for years."


async def test_a_table_that_fits_a_chunk_is_never_parted_from_its_header() -> None:
    table = "name | age\nAnn | 41\nBob | 35"
    document = document_of(("text", "one two three four five six seven eight nine ten."), ("table", table))

    chunks = await chunks_of(document, max_tokens=14)

    assert chunks[1].text == table


async def test_a_text_without_sentences_fills_its_chunks() -> None:
    chunks = await chunks_of(document_of(("text", "长" * 200)))

    assert len(chunks) <= 200 // 15
