"""Chunking is scored by tokens, and a whole comparison runs on any embedder."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.chunking import Comparison, compare
from benchmarks.chunking_scores import interval, merged, score
from benchmarks.chunking_set import HEADED, ChunkingSet, Question, sections
from rag.core.types import ParsedDocument
from rag.embedding import HashEmbedder, load_tokenizer
from rag.settings import load_settings


def test_scores_are_shares_of_tokens() -> None:
    assert score([(0, 10), (20, 30)], 20, [(5, 15)]) == (0.5, 5 / 40, 5 / 45)


def test_tokens_retrieved_twice_count_once_as_found_and_twice_as_retrieved() -> None:
    assert score([(0, 10), (0, 10)], 0, [(0, 10)]) == (1.0, 0.5, 0.5)


def test_references_that_overlap_count_once() -> None:
    assert merged([(3, 8), (0, 5), (9, 10)]) == [(0, 8), (9, 10)]


def test_an_interval_of_equal_values_has_no_width() -> None:
    result = interval(np.full(20, 0.5), seed=1)

    assert (result.mean, result.low, result.high) == (0.5, 0.5, 0.5)


def test_sections_follow_the_marked_headings() -> None:
    text = " = Ship = \nAn intro .\n = = Hull = = \nPlanks .\n = = Mast = = \nWood ."

    blocks = list(sections(text))

    assert [block.headings for block in blocks] == [("Ship",), ("Ship", "Hull"), ("Ship", "Mast")]
    assert "".join(text[block.start : block.end] for block in blocks) == text


@pytest.mark.filterwarnings("ignore")
async def test_a_comparison_reports_all_chunkers_at_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.chunking.COST_CORPUS", HEADED)
    text = " = Ship = \n" + "".join(f"The ship number {n} sailed from port {n} to port {n + 1}. " for n in range(300))
    start = text.index("The ship number 77 ")
    data = ChunkingSet(
        documents={HEADED: ParsedDocument(text=text, blocks=tuple(sections(text)))},
        questions=[Question(text="Where did ship number 77 sail?", corpus=HEADED, references=[(start, start + 40)])],
    )

    report = await compare(Comparison(data, HashEmbedder(64), load_tokenizer("hash-64"), load_settings()), seed=1)

    assert [row[0] for row in report.rows[:3]] == ["recursive", "semantic", "fixed"]
    assert all(bar.holds for bar in report.bars if "apart" in bar.name)
    assert len(report.rows) == 11
