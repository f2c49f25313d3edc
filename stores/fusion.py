"""Reciprocal rank fusion of ranked lists of hits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from rag.core.records import Hit

RANK_CONSTANT = 60


def reciprocal_rank_fusion(legs: Iterable[Sequence[Hit]], *, limit: int, k: int = RANK_CONSTANT) -> list[Hit]:
    """The best ``limit`` hits by the sum of ``1 / (k + rank)`` over the ``legs``; ranks start at 1, ties go by id.

    Each leg is best first and holds a record at most once; an empty leg adds nothing. ``score`` of a returned
    hit is its fused score.
    """
    scores: dict[UUID, float] = {}
    hits: dict[UUID, Hit] = {}
    for leg in legs:
        for rank, hit in enumerate(leg, start=1):
            scores[hit.id] = scores.get(hit.id, 0.0) + 1.0 / (k + rank)
            hits.setdefault(hit.id, hit)
    best = sorted(scores, key=lambda key: (-scores[key], key))[:limit]
    return [replace(hits[key], score=scores[key]) for key in best]


def leg_limit(limit: int) -> int:
    """How many hits each leg of a hybrid search brings so that ``limit`` fused ones are worth their rank.

    A record that only one leg knows needs a rank within ``limit`` to be returned; one that both know gains from
    ranks further down, which twice the limit covers where it matters; the floor steadies small limits.
    """
    return max(2 * limit, 50)
