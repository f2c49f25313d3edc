"""The three states of a breaker, by the names that pybreaker gives them."""

from __future__ import annotations

from enum import StrEnum

import pybreaker


class State(StrEnum):
    """What a breaker does with the next call: let it through, refuse it, or let it through alone."""

    CLOSED = pybreaker.STATE_CLOSED
    OPEN = pybreaker.STATE_OPEN
    HALF_OPEN = pybreaker.STATE_HALF_OPEN
