"""Two sides measured in turn: what one takes relative to the other, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
_COVERED = (2.5, 97.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and the interval that holds 95 % of what it is when the pairs are drawn again."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.3g} … {self.high:.3g}"


def ratio(ours: Sequence[float], theirs: Sequence[float], *, seed: int) -> Estimate:
    """Our throughput as a share of theirs: the median over pairs of their seconds by our seconds."""
    shares = np.asarray(theirs) / np.asarray(ours)
    resampled = np.median(shares[_draws(len(shares), seed)], axis=1)
    low, high = np.percentile(resampled, _COVERED)
    return Estimate(value=float(np.median(shares)), low=float(low), high=float(high))


def added(ours: Sequence[float], theirs: Sequence[float], *, seed: int) -> Estimate:
    """What we take beyond them at p50, in the unit of both."""
    mine, other = np.asarray(ours), np.asarray(theirs)
    draws = _draws(len(mine), seed)
    resampled = np.median(mine[draws], axis=1) - np.median(other[draws], axis=1)
    low, high = np.percentile(resampled, _COVERED)
    return Estimate(value=float(np.median(mine) - np.median(other)), low=float(low), high=float(high))


def _draws(size: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(size, size=(RESAMPLES, size))
