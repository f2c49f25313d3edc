"""Token-level recall, precision and IoU of retrieved chunks.

After Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval" (Chroma, 2024): of the tokens of the
reference passages the share that was retrieved; of the retrieved tokens the share that is reference; and the overlap
of the two over their union. Tokens that overlapping chunks bring twice count twice as retrieved: redundancy costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.chunking_set import Span

RESAMPLES = 2000
MEASURES = ("recall", "precision", "IoU")

Scores: TypeAlias = NDArray[np.float64]
"""A row a question, a column for each of ``MEASURES``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean and the bounds that hold 95 % of what it is when the questions are drawn again."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} ({self.low:.4f} … {self.high:.4f})"


def score(retrieved: Sequence[Span], elsewhere: int, references: Sequence[Span]) -> tuple[float, float, float]:
    """Recall, precision and IoU of one question, all in tokens.

    ``retrieved`` and ``references`` are spans of tokens of the right corpus, ``elsewhere`` counts the tokens
    retrieved from others.
    """
    wanted = merged(references)
    hits = _size(_common(merged(retrieved), wanted))
    total, needed = _size(retrieved) + elsewhere, _size(wanted)
    return hits / needed, hits / max(total, 1), hits / (total + needed - hits)


def merged(spans: Sequence[Span]) -> list[Span]:
    """The same tokens in spans that do not overlap, in order."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def _common(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    pairs = [(max(a[0], b[0]), min(a[1], b[1])) for a in left for b in right]
    return [(start, end) for start, end in pairs if start < end]


def _size(spans: Sequence[Span]) -> int:
    return sum(end - start for start, end in spans)


def interval(values: NDArray[np.float64], *, seed: int) -> Interval:
    """The mean of ``values``, one a question, with its bootstrap interval; of differences, a paired one."""
    draws = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(values[draws].mean(axis=1), (2.5, 97.5))
    return Interval(mean=float(values.mean()), low=float(low), high=float(high))
