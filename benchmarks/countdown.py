"""Progress of a long measurement, with the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable

from rag.cli.output import Progress


class Countdown:
    """Says how many of ``total`` are done and about how long the others take at the pace so far."""

    def __init__(
        self,
        label: str,
        total: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        progress: Progress | None = None,
    ) -> None:
        self._label = label
        self._total = total
        self._clock = clock
        self._began = clock()
        self._progress = progress or Progress(clock=clock)

    def show(self, done: int) -> None:
        """``done`` is at least 1; with the last one the line goes."""
        if done >= self._total:
            self._progress.clear()
            return
        left = (self._clock() - self._began) * (self._total - done) / done
        self._progress.show(f"{self._label}: {done}/{self._total}, about {duration(left)} left")


def duration(seconds: float) -> str:
    """Whole seconds, with minutes from one minute on: ``42 s``, ``3 min 05 s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
