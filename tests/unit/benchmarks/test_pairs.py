"""Estimates from pairs: the direction of a ratio, and an interval that holds the value."""

from __future__ import annotations

import pytest

from benchmarks.pairs import added, ratio


def test_a_side_that_takes_twice_as_long_has_half_the_throughput() -> None:
    estimate = ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], seed=1)

    assert (estimate.value, estimate.low, estimate.high) == (0.5, 0.5, 0.5)


def test_what_is_added_is_the_difference_of_the_medians() -> None:
    estimate = added([1.5, 1.5, 9.0], [1.0, 1.0, 1.0], seed=1)

    assert estimate.value == pytest.approx(0.5)
    assert estimate.low <= estimate.value <= estimate.high


def test_an_interval_widens_with_the_spread() -> None:
    steady = ratio([1.0] * 20, [1.0] * 20, seed=1)
    shaky = ratio([1.0] * 20, [0.5, 1.5] * 10, seed=1)

    assert steady.low == steady.high
    assert shaky.low < shaky.high
