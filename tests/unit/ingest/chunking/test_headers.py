"""A header names title and section, once each, within its bound."""

from __future__ import annotations

import pytest

from ingest.chunking import HeadedChunker, RecursiveChunker
from ingest.parsing.assembly import Assembly
from tests.unit.ingest.chunking.documents import WordTokens


@pytest.mark.parametrize(
    ("title", "most", "header"),
    [("Manual", 20, "Manual › Ships › Anchors"), ("Ships", 20, "Ships › Anchors"), ("A long manual", 2, "A long")],
)
async def test_a_chunk_is_embedded_below_title_and_section(title: str, most: int, header: str) -> None:
    assembly = Assembly()
    assembly.section(1, "Ships")
    assembly.section(2, "Anchors")
    assembly.add("Words about anchors.")
    plain = RecursiveChunker(WordTokens(), max_tokens=40, min_tokens=2, overlap_tokens=0)

    [chunk] = await HeadedChunker(plain, WordTokens(), header_tokens=most).chunk(assembly.document(title=title))

    assert chunk.indexed == f"{header}\nWords about anchors."
    assert chunk.text == "Words about anchors."
