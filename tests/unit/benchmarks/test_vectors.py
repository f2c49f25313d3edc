"""The oracle of recall is exact, and counts by distance instead of by id."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.vectors import PARTS, SHARES, Oracle, clustered_vectors, recalled, shared_vectors
from rag.core.errors import ConfigurationError
from rag.core.filters import matches
from rag.core.records import Metric

ALL = np.ones(4, dtype=bool)


def test_what_ties_with_the_last_wanted_row_is_as_good_as_it() -> None:
    scores = np.array([3.0, 2.0, 2.0, 1.0])

    assert recalled(scores, ALL, [0, 1], limit=2) == 1.0
    assert recalled(scores, ALL, [0, 2], limit=2) == 1.0
    assert recalled(scores, ALL, [0, 3], limit=2) == 0.5


def test_a_row_given_twice_or_excluded_by_the_filter_is_no_find() -> None:
    scores = np.array([3.0, 2.0, 1.5, 1.0])
    passing = np.array([True, True, False, True])

    assert recalled(scores, passing, [0, 0], limit=2) == 0.5
    assert recalled(scores, passing, [0, 2], limit=2) == 0.5
    assert recalled(scores, passing, [0, 1, 3], limit=10) == 1.0


def test_no_passing_row_is_found_by_finding_nothing() -> None:
    assert recalled(np.zeros(4), ~ALL, [], limit=10) == 1.0


@pytest.mark.parametrize(
    ("metric", "nearest"), [(Metric.COSINE, 0), (Metric.DOT, 1), (Metric.L2, 2)], ids=["cosine", "dot", "l2"]
)
def test_the_oracle_ranks_by_the_metric_of_the_collection(metric: Metric, nearest: int) -> None:
    base = np.array([[0.1, 0.0], [9.0, 9.0], [1.0, 0.2]], dtype=np.float32)
    asked = np.array([1.0, 0.0], dtype=np.float32)
    made = clustered_vectors(3, dimension=2, queries=1, seed=0)
    placed = replace(made, metric=metric, base=base)

    assert int(np.argmax(Oracle(placed).scores(asked))) == nearest


def test_each_filter_passes_its_share_of_the_rows_and_means_what_the_mask_says() -> None:
    vectors = clustered_vectors(2 * PARTS, dimension=4, queries=1, seed=3)
    metadata = vectors.rows().metadata

    cases = {case.name: case for case in vectors.cases()}

    assert [int(cases[f"{share / 10:g} %"].passing.sum()) for share in SHARES] == [1000, 200, 20, 2]
    for case in cases.values():
        passing = [case.filter is None or matches(case.filter, each) for each in metadata]
        assert passing == case.passing.tolist()


def test_generated_vectors_are_those_of_their_seed() -> None:
    first, again, other = (clustered_vectors(50, dimension=8, queries=2, seed=seed) for seed in (1, 1, 2))

    assert np.array_equal(first.base, again.base)
    assert not np.array_equal(first.base, other.base)


def test_real_embeddings_need_the_shared_data(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("ANCHORAGE_SHARED", str(tmp_path))

    with pytest.raises(ConfigurationError, match="ANCHORAGE_SHARED"):
        shared_vectors(Metric.COSINE, queries=1, seed=0)
