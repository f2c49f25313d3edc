"""Where a run of units is best cut: the cheapest of all partitions, found by dynamic programming."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

SIZE_WEIGHT = 6.0
"""What a chunk costs that is twice the target, in standard deviations of the similarity across a cut."""

# Above any sum of costs of a document that fits in memory: too small is worse than anything else.
_TOO_SMALL = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bounds of a chunk in tokens, and the size that costs nothing."""

    least: int
    target: int
    most: int

    def cost(self, tokens: int) -> float:
        """What a chunk of this size costs."""
        off = tokens / self.target - 1.0
        return SIZE_WEIGHT * off * off + (_TOO_SMALL if tokens < self.least else 0.0)


def partition(tokens: Sequence[int], cut_costs: Sequence[float], sizes: Sizes) -> list[tuple[int, int]]:
    """Consecutive ``[first, last)`` over the units, whose cuts and sizes together cost least.

    ``cut_costs[i]`` is what a cut before unit ``i`` costs; the first is ignored. No part has more than
    ``sizes.most`` tokens unless it is a single unit, and fewer than ``sizes.least`` only where nothing else is
    possible. The time grows with the number of units times those that fit a chunk.
    """
    ends = [0, *accumulate(tokens)]
    best, cut = [0.0], [0]
    for last in range(1, len(ends)):
        cost, first = min(
            (best[first] + (cut_costs[first] if first else 0.0) + sizes.cost(ends[last] - ends[first]), first)
            for first in _firsts(ends, last, sizes.most)
        )
        best.append(cost)
        cut.append(first)
    return list(_parts(cut))[::-1]


def _firsts(ends: Sequence[int], last: int, most: int) -> Iterator[int]:
    """Where a part that ends before unit ``last`` may begin."""
    yield last - 1
    for first in range(last - 2, -1, -1):
        if ends[last] - ends[first] > most:
            return
        yield first


def _parts(cut: Sequence[int]) -> Iterator[tuple[int, int]]:
    last = len(cut) - 1
    while last:
        yield cut[last], last
        last = cut[last]
