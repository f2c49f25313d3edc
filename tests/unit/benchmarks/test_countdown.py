"""Progress of a benchmark says how much is done and how long the rest takes."""

from __future__ import annotations

import pytest

from benchmarks.countdown import Countdown, duration
from rag.cli.output import PATIENCE, Progress


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_follows_the_pace_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    countdown = Countdown("rows", 400, clock=clock, progress=Progress(clock=clock, terminal=False))
    clock.now += 30.0

    countdown.show(100)

    assert capsys.readouterr().err == "rows: 100/400, about 1 min 30 s left\n"


def test_what_is_done_before_anyone_waits_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    countdown = Countdown("rows", 2, clock=clock, progress=Progress(clock=clock, terminal=False))
    clock.now += PATIENCE / 2

    countdown.show(1)
    countdown.show(2)

    assert capsys.readouterr().err == ""


def test_the_line_goes_from_a_terminal_with_the_last_one(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    countdown = Countdown("rows", 2, clock=clock, progress=Progress(clock=clock, terminal=True))

    countdown.show(1)
    countdown.show(2)

    assert capsys.readouterr().err.endswith("left\r")


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s")])
def test_durations_are_whole_seconds(seconds: float, text: str) -> None:
    assert duration(seconds) == text
