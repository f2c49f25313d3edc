"""The partition is the cheapest there is, within its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.chunking.partition import Sizes, partition

UNITS = st.lists(st.tuples(st.integers(1, 9), st.floats(-3, 3)), min_size=1, max_size=8)


def cost(parts: Sequence[tuple[int, int]], tokens: Sequence[int], cuts: Sequence[float], sizes: Sizes) -> float:
    return sum(cuts[first] if first else 0.0 for first, _ in parts) + sum(
        sizes.cost(sum(tokens[first:last])) for first, last in parts
    )


def allowed(tokens: Sequence[int], most: int) -> Iterator[list[tuple[int, int]]]:
    inner = range(1, len(tokens))
    for count in range(len(tokens)):
        for cuts in combinations(inner, count):
            parts = list(pairwise([0, *cuts, len(tokens)]))
            if all(last - first == 1 or sum(tokens[first:last]) <= most for first, last in parts):
                yield parts


@given(units=UNITS, most=st.integers(4, 20))
def test_no_other_partition_within_the_bounds_costs_less(units: list[tuple[int, float]], most: int) -> None:
    tokens, cuts = [each for each, _ in units], [each for _, each in units]
    sizes = Sizes(least=3, target=max(most * 3 // 4, 1), most=most)

    parts = partition(tokens, cuts, sizes)

    best = min(cost(each, tokens, cuts, sizes) for each in allowed(tokens, most))
    assert parts in list(allowed(tokens, most))
    assert cost(parts, tokens, cuts, sizes) == pytest.approx(best)


def test_a_cheap_cut_is_taken_where_the_sizes_allow_it() -> None:
    assert partition([5] * 6, [0, 0, -3, 0, 0, 0], Sizes(least=3, target=15, most=20)) == [(0, 2), (2, 6)]
