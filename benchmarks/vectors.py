"""Vectors to search among, the exact answer, and filters that let a known share of the rows pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import shared_folder
from benchmarks.rows import Rows
from rag.core.filters import Compare, Filter
from rag.core.records import Metric
from rag.core.types import FieldType, Metadata, Vector, Vectors

PARTS = 1000
SHARES = (500, 100, 10, 1)
"""Selectivities in parts of a thousand: 50, 10, 1 and 0.1 %."""
FIELDS = {"part": FieldType.INTEGER, "cluster": FieldType.INTEGER}
CLUSTERS = 100
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSet:
    """``base`` (n, d) is searched for the nearest to each of ``queries`` (q, d), by ``metric``.

    ``parts`` are numbers below 1000, each of a thousandth of the rows; ``clusters`` is empty where there are none.
    """

    name: str
    metric: Metric
    base: Vectors
    queries: Vectors
    parts: NDArray[np.int64]
    clusters: NDArray[np.int64]

    def rows(self) -> Rows:
        """The rows with the fields that filters ask for."""
        clusters: Sequence[int | None] = self.clusters.tolist() or [None] * len(self.base)
        metadata: list[Metadata] = [
            {"part": part, "cluster": cluster} for part, cluster in zip(self.parts.tolist(), clusters, strict=True)
        ]
        return Rows(vectors=self.base, metadata=metadata)

    def cases(self) -> Iterator[Case]:
        """No filter, then filters that pass ever fewer rows, and one whose rows are far from most queries."""
        yield Case(name="none", filter=None, passing=np.ones(len(self.base), dtype=bool))
        for share in SHARES:
            below = Compare(operator="lt", key="part", value=share)
            yield Case(name=f"{share / 10:g} %", filter=below, passing=self.parts < share)
        if len(self.clusters):
            one = Compare(operator="eq", key="cluster", value=0)
            yield Case(name="one cluster", filter=one, passing=self.clusters == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A filter, and the rows of a set that pass it."""

    name: str
    filter: Filter | None
    passing: NDArray[np.bool_]


class Oracle:
    """The exact answer in double precision."""

    def __init__(self, vectors: VectorSet) -> None:
        self._metric = vectors.metric
        self._base = _comparable(vectors.base, vectors.metric)
        self._squares = np.einsum("ij,ij->i", self._base, self._base)

    def scores(self, query: Vector) -> NDArray[np.float64]:
        """A score a row, higher is better."""
        compared = _comparable(query.reshape(1, -1), self._metric)[0]
        products: NDArray[np.float64] = self._base @ compared
        if self._metric is not Metric.L2:
            return products
        return np.asarray(2.0 * products - self._squares)


def recalled(scores: NDArray[np.float64], passing: NDArray[np.bool_], found: Sequence[int], *, limit: int) -> float:
    """Share of the best ``limit`` passing rows that were found; a row that ties with the last of them is as good.

    A row that does not pass, or is given twice, is no find. 1.0 where no row passes.
    """
    among = scores[passing]
    wanted = min(limit, len(among))
    if not wanted:
        return 1.0
    least = np.partition(among, len(among) - wanted)[len(among) - wanted]
    good = {row for row in found if passing[row] and scores[row] >= least - _TOLERANCE * max(1.0, abs(least))}
    return min(len(good), wanted) / wanted


def shared_vectors(metric: Metric, *, queries: int, seed: int) -> VectorSet:
    """Real embeddings, not normalised; raises ``ConfigurationError`` without the shared data."""
    folder = shared_folder() / "data" / "vectors" / "wordllama_npl_128"
    base, asked = np.load(folder / "base.npy"), np.load(folder / "queries.npy")
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(asked))[:queries]
    return VectorSet(
        name="wordllama_npl_128",
        metric=metric,
        base=base,
        queries=np.ascontiguousarray(asked[np.sort(chosen)]),
        parts=_parts(len(base), random),
        clusters=np.empty(0, dtype=np.int64),
    )


def clustered_vectors(count: int, *, dimension: int, queries: int, seed: int) -> VectorSet:
    """Normal clusters around normal centres, as wide as their centres are apart; queries are drawn as rows are."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((CLUSTERS, dimension))
    clusters = random.integers(CLUSTERS, size=count + queries)
    drawn = (centres[clusters] + random.standard_normal((count + queries, dimension))).astype(np.float32)
    return VectorSet(
        name=f"clustered {count}",
        metric=Metric.COSINE,
        base=drawn[:count],
        queries=drawn[count:],
        parts=_parts(count, random),
        clusters=clusters[:count],
    )


def _parts(count: int, random: np.random.Generator) -> NDArray[np.int64]:
    return random.permutation(np.arange(count, dtype=np.int64) % PARTS)


def _comparable(vectors: Vectors, metric: Metric) -> NDArray[np.float64]:
    doubles = vectors.astype(np.float64)
    if metric is Metric.COSINE:
        doubles /= np.linalg.norm(doubles, axis=1, keepdims=True)
    return doubles
