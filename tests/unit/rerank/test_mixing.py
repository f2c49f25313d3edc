"""Mixed scores order hits by both stages, whatever the scales."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank.mixing import mixed_scores, sigmoid

scores = st.floats(-1e6, 1e6)


def test_half_and_half_is_the_mean_of_both_scaled_scores() -> None:
    mixed = mixed_scores(np.array([-4.0, 0.0, 4.0]), np.array([0.03, 0.02, 0.01]), weight=0.5)

    assert mixed.tolist() == pytest.approx([0.5, 0.5, 0.5])


@pytest.mark.parametrize(("weight", "best"), [(1.0, 1), (0.0, 0)])
def test_the_weight_is_the_share_of_the_cross_encoder(weight: float, best: int) -> None:
    mixed = mixed_scores(np.array([1.0, 2.0]), np.array([0.9, 0.1]), weight=weight)

    assert int(mixed.argmax()) == best


def test_equal_scores_on_one_side_leave_the_order_to_the_other() -> None:
    mixed = mixed_scores(np.array([3.0, 3.0, 3.0]), np.array([0.1, 0.3, 0.2]), weight=0.5)

    assert mixed.argsort().tolist() == [0, 2, 1]


def test_one_hit_is_the_best_and_none_is_none() -> None:
    assert mixed_scores(np.array([-7.0]), np.array([0.1]), weight=0.5).tolist() == [1.0]
    assert mixed_scores(np.array([]), np.array([]), weight=0.5).tolist() == []


@given(st.lists(st.tuples(scores, scores), min_size=1, max_size=30), st.floats(0, 1))
def test_mixed_scores_stay_between_zero_and_one(pairs: list[tuple[float, float]], weight: float) -> None:
    logits, first = np.array(pairs).T

    mixed = mixed_scores(logits, first, weight=weight)

    assert np.isfinite(mixed).all()
    assert (mixed >= -1e-9).all()
    assert (mixed <= 1 + 1e-9).all()


def test_the_sigmoid_does_not_overflow() -> None:
    assert sigmoid(np.array([-1e9, 0.0, 1e9], dtype=np.float32)).tolist() == [0.0, 0.5, 1.0]
