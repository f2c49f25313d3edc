"""The documents that the ingest benchmark makes are what it says, and so are its figures."""

from __future__ import annotations

import pypdfium2
import pytest

from benchmarks.ingest.making import page, pdf, plain_text
from benchmarks.ingest.memory import Memory
from benchmarks.ingest.parsing import measure_parsing, read_bare
from ingest.parsing.parsers import load_parsers
from rag.core.media import HTML, PDF


def test_texts_have_the_size_asked_for_and_are_the_same_for_the_same_seed() -> None:
    assert 50_000 <= len(plain_text(50_000, seed=1)) < 60_000
    assert plain_text(5_000, seed=1) == plain_text(5_000, seed=1) != plain_text(5_000, seed=2)


def test_pages_have_headings_lists_and_tables() -> None:
    parsed = load_parsers()[HTML].parse(page(50_000, seed=1), source="a.html", media_type=HTML)

    assert parsed.title == "Port handbook"
    assert {block.kind for block in parsed.blocks} == {"text", "table"}
    assert len({block.headings for block in parsed.blocks}) > 5


def test_pdfs_have_pages_of_text_that_ours_and_the_bare_reader_read_alike() -> None:
    content = pdf(3, seed=1)
    parsed = load_parsers()[PDF].parse(content, source="a.pdf", media_type=PDF)

    assert len(pypdfium2.PdfDocument(content)) == 3
    assert {block.page for block in parsed.blocks} == {1, 2, 3}
    assert len(parsed.text.split()) == pytest.approx(read_bare(content) / 7.5, rel=0.2)


async def test_speeds_are_taken_through_the_child() -> None:
    speeds = await measure_parsing(seed=1, megabytes=1, pages=2, rounds=1)

    assert min(speeds.text, speeds.html, speeds.pdf_ratio, speeds.pdf_seconds) > 0


def test_growth_is_the_end_over_the_first() -> None:
    assert Memory(first=100.0, last=110.0, parsers=1.0, connections=1).growth == pytest.approx(0.1)
