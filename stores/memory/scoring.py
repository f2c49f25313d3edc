"""Exact scores in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from rag.core.records import Metric
from rag.core.types import Terms, Vector

Scores = NDArray[np.float64]


def dense_scores(metric: Metric, rows: NDArray[np.float64], vector: Vector) -> Scores:
    """Score of each of ``rows``, shape ``(n, dimension)``; higher is nearer, cosine stays in [-1, 1]."""
    query = vector.astype(np.float64)
    match metric:
        case Metric.DOT:
            return np.asarray(rows @ query)
        case Metric.L2:
            return np.asarray(-np.linalg.norm(rows - query, axis=1))
        case Metric.COSINE:
            lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
            return np.asarray(np.clip((rows @ query) / lengths, -1.0, 1.0))
        case _:
            assert_never(metric)


def lexical_scores(rows: Sequence[Terms], query: Terms) -> Scores:
    """Sparse dot product of each row with ``query``; NaN where they share no term.

    Rounded to single precision: what remains is the same in whatever order a store adds, so ties stay ties.
    """
    scores = [_dot(row, query) for row in rows]
    return np.asarray(scores, dtype=np.float32).astype(np.float64)


def _dot(row: Terms, query: Terms) -> float:
    shared = [np.float32(row[term]) * weight for term, weight in query.items() if term in row]
    return float(sum(shared)) if shared else float("nan")
