"""How alike the passages on the two sides of a cut are, from vectors that are seen once and forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, product

import numpy as np
from numpy.typing import NDArray

from ingest.chunking.segments import Segment
from ingest.chunking.sentences import Break
from ingest.chunking.units import Run
from rag.core.types import Vectors

SIDE = 2
"""Units compared on each side of a cut."""

BREAK_BONUS = 0.5
"""What a cut at a line is cheaper than one between sentences, and one at a paragraph than one at a line."""

_REACH = 2 * SIDE - 1


class Likeness:
    """Cosine similarities of each unit to the few after it; of the vectors only the last few are kept."""

    def __init__(self) -> None:
        self._tail: Vectors | None = None
        self._parts: list[list[NDArray[np.float32]]] = [[] for _ in range(_REACH)]

    def add(self, vectors: Vectors) -> None:
        """The next units, of unit length."""
        old = 0 if self._tail is None else len(self._tail)
        known = vectors if self._tail is None else np.concatenate((self._tail, vectors))
        for distance, parts in enumerate(self._parts, start=1):
            first = max(old - distance, 0)
            parts.append(np.einsum("ij,ij->i", known[first : len(known) - distance], known[first + distance :]))
        self._tail = known[-_REACH:]

    def at(self, distance: int) -> NDArray[np.float32]:
        """Element ``i`` is the similarity of unit ``i`` to unit ``i + distance``, which is 1 to 3."""
        return np.concatenate([np.empty(0, dtype=np.float32), *self._parts[distance - 1]])


def cut_costs(sections: Sequence[Run], likeness: Likeness) -> list[list[float]]:
    """For each section what a cut before each of its units costs.

    It is the similarity across the cut in standard deviations of the document, less a bonus where a line or a
    paragraph begins. ``likeness`` was given the units of all ``sections``, in order; no cut looks beyond its own.
    """
    alike = [likeness.at(distance) for distance in range(1, _REACH + 1)]
    sizes = [len(section) for section in sections]
    across = [_across(alike, end - size, size) for size, end in zip(sizes, accumulate(sizes), strict=True)]
    every = np.concatenate([np.zeros(1), *across])[1:]
    mean, deviation = (float(every.mean()), float(every.std()) or 1.0) if len(every) else (0.0, 1.0)
    return [
        [
            0.0,
            *(
                value - _bonus(unit)
                for value, unit in zip(((values - mean) / deviation).tolist(), section[1:], strict=True)
            ),
        ]
        for values, section in zip(across, sections, strict=True)
    ]


def _across(alike: Sequence[NDArray[np.float32]], first: int, size: int) -> NDArray[np.float64]:
    """The mean similarity of the units on both sides of each cut in the section of ``size`` units from ``first``."""
    total, pairs = np.zeros(size), np.zeros(size)
    for left, right in product(range(1, SIDE + 1), range(SIDE)):
        if size > left + right:
            total[left : size - right] += alike[left + right - 1][first : first + size - right - left]
            pairs[left : size - right] += 1
    return total[1:] / np.maximum(pairs[1:], 1)


def _bonus(unit: Segment) -> float:
    return BREAK_BONUS * max(0, unit.before - Break.SENTENCE)
