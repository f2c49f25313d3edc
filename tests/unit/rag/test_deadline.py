"""A deadline divides the time of a request over its stages."""

from __future__ import annotations

import pytest

from rag.core.errors import DeadlineExceededError
from rag.deadline import Deadline


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_remaining_time_shrinks_with_the_clock_and_never_below_zero() -> None:
    clock = Clock()
    deadline = Deadline.after(5.0, clock=clock)

    clock.now += 2.0
    early = deadline.remaining()
    clock.now += 10.0

    assert early == 3.0
    assert deadline.remaining() == 0.0
    assert deadline.expired


def test_a_stage_gets_its_share_but_not_more_than_its_cap() -> None:
    deadline = Deadline.after(4.0, clock=Clock())

    assert deadline.limit() == 4.0
    assert deadline.limit(share=0.5) == 2.0
    assert deadline.limit(1.0, share=0.5) == 1.0
    assert deadline.limit(9.0) == 4.0


def test_check_passes_in_time_and_names_the_stage_afterwards() -> None:
    clock = Clock()
    deadline = Deadline.after(1.0, clock=clock)
    deadline.check("rerank")

    clock.now += 1.0

    with pytest.raises(DeadlineExceededError, match="rerank"):
        deadline.check("rerank")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), float("-inf")])
def test_a_deadline_that_is_not_finite_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Deadline.after(seconds)
