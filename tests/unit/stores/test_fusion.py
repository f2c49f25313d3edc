from __future__ import annotations

from uuid import UUID

import pytest

from rag.core.records import Hit
from stores.fusion import leg_limit, reciprocal_rank_fusion


def _hit(number: int, score: float = 1.0) -> Hit:
    return Hit(
        id=UUID(int=number), score=score, document=UUID(int=0), generation=1, index=number, text="", start=0, end=0
    )


def test_a_hit_of_both_legs_beats_the_first_of_one() -> None:
    fused = reciprocal_rank_fusion([[_hit(1), _hit(3)], [_hit(2), _hit(3)]], limit=3)

    assert [hit.id.int for hit in fused] == [3, 1, 2]
    assert [hit.score for hit in fused] == pytest.approx([2 / 62, 1 / 61, 1 / 61])


def test_ranks_start_at_one_and_scores_do_not_matter() -> None:
    fused = reciprocal_rank_fusion([[_hit(1, 0.1), _hit(2, 900.0)]], limit=2, k=10)

    assert [hit.score for hit in fused] == pytest.approx([1 / 11, 1 / 12])


def test_ties_go_by_id() -> None:
    assert [hit.id.int for hit in reciprocal_rank_fusion([[_hit(9)], [_hit(4)]], limit=2)] == [4, 9]


def test_an_empty_leg_adds_nothing() -> None:
    assert [hit.id.int for hit in reciprocal_rank_fusion([[], [_hit(4)]], limit=2)] == [4]
    assert reciprocal_rank_fusion([[], []], limit=2) == []


def test_no_more_than_the_limit_is_returned() -> None:
    assert len(reciprocal_rank_fusion([[_hit(i) for i in range(9)]], limit=4)) == 4


@pytest.mark.parametrize(("limit", "depth"), [(1, 50), (25, 50), (26, 52), (200, 400)])
def test_a_leg_is_at_least_twice_as_deep_as_the_limit(limit: int, depth: int) -> None:
    assert leg_limit(limit) == depth
