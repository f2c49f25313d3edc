"""Scores where higher is better, ties by id, and exact answers from the stored vectors and terms themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from rag.core.records import Hit, Metric
from rag.core.types import Terms, Vector
from stores.milvus.calls import MAX_TOP, Calls
from stores.milvus.filters import Where
from stores.milvus.rows import UNHELD_TERMS, Row, hit_of, sparse, unpack_terms, vector_of
from stores.milvus.schema import HIT_COLUMNS, Table

Ranked = list[tuple[float, str]]
"""Scores and primary keys, best first."""
Scorer = Callable[[Sequence[Row]], NDArray[np.float64]]
"""A score a row; NaN for one that is no hit."""

PAGE_ROWS = 250
"""Whole rows of one answer: each may have a text and metadata of 64 KiB."""
_SCAN_BYTES = 16_000_000
_SPARE_TIES = 64


def score_of(table: Table, distance: float) -> float:
    """The port's score for what the engine calls distance."""
    match table.spec.metric:
        case Metric.COSINE:
            return max(-1.0, min(1.0, distance))
        case Metric.DOT:
            return distance
        case Metric.L2:
            distance = max(0.0, distance)
            return 0.0 - (math.sqrt(distance) if table.engine.squared_distances else distance)
        case _:
            assert_never(table.spec.metric)


def dense(
    calls: Calls,
    table: Table,
    where: Where,
    vectors: NDArray[np.float32],
    *,
    limit: int,
    ef: int,
    depth: int = 0,
    in_memory_too: bool = False,
) -> list[list[Hit]]:
    """For each vector the best hits by the index; of those that tie with the last, the first by id.

    At least ``depth`` rows are asked for. ``in_memory_too``: those that are not sealed are looked through as well.
    """
    if max(limit + 1, depth) * len(vectors) <= PAGE_ROWS and not in_memory_too:
        found = calls.nearest(table, where, vectors, HIT_COLUMNS, limit=max(limit + 1, depth), ef=ef)
        if not any(_tied(rows, limit) for rows in found):
            return [
                _ranked_hits(table, rows[: _last_tied([row["distance"] for row in rows], limit)])[:limit]
                for rows in found
            ]
    ranked = _nearest(calls, table, where, vectors, limit=limit, ef=ef, depth=depth)
    if in_memory_too:
        others = _nearest(calls, table, where, vectors, limit=limit, ef=ef, within=True)
        ranked = [_joined(some, more, limit) for some, more in zip(ranked, others, strict=True)]
    return _all_hits(calls, table, where, ranked)


def whole_rows(calls: Calls, table: Table, where: Where, keys: Sequence[str]) -> dict[str, Row]:
    """The rows of the primary keys that are still there."""
    found: dict[str, Row] = {}
    for start in range(0, len(keys), PAGE_ROWS):
        some = keys[start : start + PAGE_ROWS]
        found |= {row["pk"]: row for row in calls.page(table.name, where.among(some), HIT_COLUMNS, limit=len(some))}
    return found


def lexical(calls: Calls, table: Table, where: Where, terms: Terms, *, limit: int) -> list[Hit]:
    """The best hits by sparse dot product, from the index wherever it holds all the terms."""
    if not UNHELD_TERMS.isdisjoint(terms) or limit > MAX_TOP:
        return scan(calls, table, where, [lexical_scorer(terms)], "weights", limit=limit)[0]
    query = sparse(terms)
    best = _matching(calls, table, where, query, limit=limit) if query else []
    return _all_hits(calls, table, where, [best])[0]


def scan(
    calls: Calls, table: Table, where: Where, scorers: Sequence[Scorer], column: str, *, limit: int
) -> list[list[Hit]]:
    """The best hits by each scorer after reading ``column`` of every row once, a bounded number at a time."""
    width = 4 * table.spec.dimension if column == "vector" else 4096
    size = max(1, min(MAX_TOP, _SCAN_BYTES // width))
    ranked: list[Ranked] = [[] for _ in scorers]
    for rows in calls.pages(table.name, where, ["pk", column], size=size):
        keys = [str(row["pk"]) for row in rows]
        for i, scorer in enumerate(scorers):
            scored = zip(scorer(rows).tolist(), keys, strict=True)
            ranked[i] = _best([*ranked[i], *(each for each in scored if not math.isnan(each[0]))], limit)
    return _all_hits(calls, table, where, ranked)


def dense_scorer(metric: Metric, vector: Vector) -> Scorer:
    """Scores vectors in double precision."""
    query = vector.astype(np.float64)

    def score(rows: Sequence[Row]) -> NDArray[np.float64]:
        vectors = np.stack([vector_of(row["vector"]) for row in rows]).astype(np.float64)
        match metric:
            case Metric.DOT:
                return np.asarray(vectors @ query)
            case Metric.L2:
                return np.asarray(0.0 - np.linalg.norm(vectors - query, axis=1))
            case Metric.COSINE:
                lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
                return np.asarray(np.clip((vectors @ query) / lengths, -1.0, 1.0))
            case _:
                assert_never(metric)

    return score


def lexical_scorer(terms: Terms) -> Scorer:
    """Scores stored terms, at single precision so that the order of adding makes no difference to ties."""

    def score(rows: Sequence[Row]) -> NDArray[np.float64]:
        stored = (unpack_terms(row["weights"]) for row in rows)
        return np.asarray([_dot(each, terms) for each in stored], dtype=np.float32).astype(np.float64)

    return score


def _dot(stored: Mapping[int, float], terms: Terms) -> float:
    shared = [stored[term] * weight for term, weight in terms.items() if term in stored]
    return sum(shared) if shared else math.nan


def _nearest(
    calls: Calls,
    table: Table,
    where: Where,
    vectors: NDArray[np.float32],
    *,
    limit: int,
    ef: int,
    depth: int = 0,
    within: bool = False,
) -> list[Ranked]:
    depth = min(MAX_TOP, max(depth, limit + _SPARE_TIES))
    while True:
        found = calls.nearest_keys(table, where, vectors, limit=depth, ef=ef, within=within)
        if depth == MAX_TOP or not any(_ties_with_last(some, limit) for some in found if len(some) == depth):
            return [_first(table, some, limit) for some in found]
        depth = min(MAX_TOP, depth * 4)


def _ties_with_last(found: Sequence[tuple[float, str]], limit: int) -> bool:
    return len(found) > limit and found[-1][0] == found[limit - 1][0]


def _first(table: Table, found: Sequence[tuple[float, str]], limit: int) -> Ranked:
    """The first of what comes nearest first, with all that tie with the last of them looked at."""
    last = _last_tied([distance for distance, _ in found[: limit + _SPARE_TIES]], limit)
    if last == limit + _SPARE_TIES:
        last = len(found)
    return _best([(score_of(table, distance), key) for distance, key in found[:last]], limit)


def _last_tied(distances: Sequence[float], limit: int) -> int:
    """How many of the rows, nearest first, are no farther than the one at the limit."""
    last = min(limit, len(distances))
    while limit <= last < len(distances) and distances[last] == distances[limit - 1]:
        last += 1
    return last


def _joined(some: Ranked, more: Ranked, limit: int) -> Ranked:
    """The best of both; a key may be in each with a score of its own rounding."""
    return _best([(score, key) for key, score in {key: score for score, key in (*more, *some)}.items()], limit)


def _matching(calls: Calls, table: Table, where: Where, query: Terms, *, limit: int) -> Ranked:
    depth = min(MAX_TOP, limit + _SPARE_TIES)
    while True:
        rows = calls.matching(table.name, where, query, limit=depth)
        if len(rows) < depth or depth == MAX_TOP or not _tied(rows, limit):
            return _best([(float(row["distance"]), str(row["pk"])) for row in rows], limit)
        depth = min(MAX_TOP, depth * 4)


def _tied(rows: Sequence[Row], limit: int) -> bool:
    """Whether the last of the rows is as far as the one at the limit, so that more may be."""
    return len(rows) > limit and rows[-1]["distance"] == rows[limit - 1]["distance"]


def _best(found: Ranked, limit: int) -> Ranked:
    return sorted(found, key=lambda each: (-each[0], each[1]))[:limit]


def _ranked_hits(table: Table, rows: Sequence[Row]) -> list[Hit]:
    hits = [hit_of(row, score_of(table, row["distance"]), table.moments) for row in rows]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def _all_hits(calls: Calls, table: Table, where: Where, ranked: Sequence[Ranked]) -> list[list[Hit]]:
    whole = whole_rows(calls, table, where, sorted({key for best in ranked for _, key in best}))
    return [_hits(table, whole, best) for best in ranked]


def _hits(table: Table, whole: Mapping[str, Row], best: Ranked) -> list[Hit]:
    return [hit_of(whole[key], score, table.moments) for score, key in best if key in whole]
