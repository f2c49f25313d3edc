"""Ranking measures give their textbook values."""

from __future__ import annotations

import pytest

from benchmarks.metrics import hit, ndcg, percentile, recall

GRADES = {"a": 3, "b": 2, "c": 0}


def test_the_ideal_order_has_ndcg_one() -> None:
    assert ndcg(["a", "b", "x"], GRADES) == pytest.approx(1.0)


def test_ndcg_discounts_by_the_logarithm_of_the_rank() -> None:
    expected = (2 / 1 + 3 / 1.5849625) / (3 / 1 + 2 / 1.5849625)

    assert ndcg(["b", "a"], GRADES) == pytest.approx(expected)


def test_a_document_of_grade_zero_is_not_relevant() -> None:
    assert recall(["c", "a"], GRADES, depth=2) == pytest.approx(0.5)
    assert hit(["c"], GRADES, depth=10) == 0.0


def test_what_stands_below_the_depth_does_not_count() -> None:
    assert ndcg(["x", "y", "a"], GRADES, depth=2) == 0.0


def test_the_percentile_is_the_nearest_rank() -> None:
    assert percentile([5, 1, 4, 2, 3], 0.5) == 3
    assert percentile([1, 2], 0.99) == 2
