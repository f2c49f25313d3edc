"""Ranking quality, as the field defines it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def ndcg(ranking: Sequence[str], relevance: Mapping[str, int], *, depth: int = 10) -> float:
    """Normalised discounted cumulative gain at ``depth``, gain = grade (Järvelin and Kekäläinen 2002)."""
    gains = [relevance.get(document, 0) for document in ranking[:depth]]
    ideal = sorted(relevance.values(), reverse=True)[:depth]
    best = _discounted(ideal)
    return _discounted(gains) / best if best else 0.0


def recall(ranking: Sequence[str], relevance: Mapping[str, int], *, depth: int) -> float:
    """Share of the relevant documents within the first ``depth``."""
    relevant = {document for document, grade in relevance.items() if grade > 0}
    return len(relevant.intersection(ranking[:depth])) / len(relevant) if relevant else 0.0


def hit(ranking: Sequence[str], relevance: Mapping[str, int], *, depth: int) -> float:
    """1.0 when a relevant document is within the first ``depth``, else 0.0."""
    return 1.0 if any(relevance.get(document, 0) > 0 for document in ranking[:depth]) else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the sorted values lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
