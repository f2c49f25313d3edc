"""The benchmarks of stores, small and over the memory store: what they report and what they hold it to."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import lexical, recall
from benchmarks.adapters import CONDITIONS, LIMIT, SPEC, Load, Sides, _given, _search_blocks, _search_in_turn
from benchmarks.byhand.client import Client
from benchmarks.engines import each_opened
from benchmarks.rows import SCOPE, load
from benchmarks.vectors import clustered_vectors
from rag.core.records import RecordBatch
from rag.core.types import Vector, Vectors


class _Counting:
    """A ``Client`` that counts instead of searching."""

    def __init__(self) -> None:
        self.searches = 0

    def load(self, batch: RecordBatch) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        raise NotImplementedError

    def search(self, vector: Vector, *, limit: int, below: int | None) -> int:
        self.searches += 1
        return limit

    def search_all(self, vectors: Vectors, *, limit: int, below: int | None, workers: int) -> list[int]:
        return [self.search(vector, limit=limit, below=below) for vector in vectors]


async def test_recall_of_exact_search_is_one_under_every_filter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANCHORAGE_SHARED", str(tmp_path))
    monkeypatch.setattr(
        recall, "clustered_vectors", lambda _, **options: clustered_vectors(1500, **{**options, "queries": 4})
    )

    report = await recall.measure(seed=7, quick=True, stores=["memory"])

    assert report.holds
    assert {row[8] for row in report.rows} == {"exact"}
    assert {row[3] for row in report.rows} == {"none", "50 %", "10 %", "1 %", "0.1 %", "one cluster"}
    assert report.notes[0].startswith("the real embeddings were not measured")


async def test_lexical_cost_is_measured_where_the_judged_sets_are_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANCHORAGE_SHARED", str(tmp_path))
    sized = lexical._sized
    monkeypatch.setattr(lexical, "_sized", lambda count, **options: sized(count // 20, **options))
    monkeypatch.setattr(lexical, "MOST_TIMES", 1e9)

    report = await lexical.measure(seed=7, quick=True, stores=["memory"])

    assert report.holds
    assert [row[:4] for row in report.rows] == [
        ["memory", "cost", words, rows] for rows in (100, 1000) for words in ("words as in texts", "words in 50 rows")
    ]
    assert report.notes[0].startswith("agreement was not measured")


async def test_both_sides_make_the_same_searches(tmp_path: Path) -> None:
    size = Load(loads=2, batch=200, searches=2, queries=3)
    rows, queries, _ = _given(size, 7)
    counting = _Counting()
    client: Client = counting

    async for opened in each_opened(["memory"], tmp_path, []):
        await opened.store.create_collection("ours", SPEC)
        await load(opened.store, "ours", rows, label="ours")
        sides = Sides(opened=opened, client=client, load=size, rows=rows, queries=queries, seed=7)
        assert len(await opened.store.search("ours", SCOPE, queries[0], limit=LIMIT)) == LIMIT

        blocks = [await _search_blocks(sides, *condition) for condition in CONDITIONS]
        single = await _search_in_turn(sides, "plain", None)

    assert [(len(turns.ours), len(turns.theirs)) for turns in blocks] == [(2, 2)] * 3
    assert (len(single.ours), len(single.theirs)) == (6, 6)
    assert counting.searches == 4 * 9
