"""The delay before a restart."""

from __future__ import annotations

from rag.ownership.backoff import Backoff


class ManualClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_delay_doubles_up_to_its_limit() -> None:
    backoff = Backoff(first=0.5, longest=30.0, clock=ManualClock())

    assert [backoff.died() for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert backoff.failures == 8


def test_a_stable_run_starts_it_over() -> None:
    clock = ManualClock()
    backoff = Backoff(first=0.5, stable=60.0, clock=clock)
    backoff.died()
    backoff.died()

    backoff.started()
    clock.now += 60.0

    assert backoff.died() == 0.5
    assert backoff.failures == 1


def test_a_short_run_does_not() -> None:
    clock = ManualClock()
    backoff = Backoff(first=0.5, stable=60.0, clock=clock)
    backoff.died()

    backoff.started()
    clock.now += 59.0

    assert backoff.died() == 1.0


def test_a_very_long_row_of_deaths_does_not_overflow() -> None:
    backoff = Backoff(clock=ManualClock())

    assert [backoff.died() for _ in range(5000)][-1] == 30.0
