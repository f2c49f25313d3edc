"""How the cross-encoder's scores and the first stage's become one order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def mixed_scores(
    logits: NDArray[np.floating], first_stage: NDArray[np.floating], *, weight: float
) -> NDArray[np.float64]:
    """``weight`` × scaled logits + (1 − ``weight``) × scaled first-stage scores, each in [0, 1].

    Both are scaled to [0, 1] over the hits of this one query: only their distances within a query mean
    anything, and the first stage's scale is another for each mode. Shapes ``(n,)``; empty gives empty.
    """
    mixed: NDArray[np.float64] = weight * _scaled(logits) + (1.0 - weight) * _scaled(first_stage)
    return mixed


def sigmoid(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Logits as probabilities in [0, 1], without overflow."""
    halved = 0.5 * logits.astype(np.float64)
    probabilities: NDArray[np.float64] = 0.5 * (1.0 + np.tanh(halved))
    return probabilities


def _scaled(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Min to 0, max to 1; where all are equal they are all the best, 1, and leave the order to the other side."""
    values = scores.astype(np.float64)
    if not values.size:
        return values
    low, high = values.min(), values.max()
    if high == low:
        return np.ones_like(values)
    scaled: NDArray[np.float64] = (values - low) / (high - low)
    return scaled
