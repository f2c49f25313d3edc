"""The processes that a parser process started, whatever session they moved to, and how they end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil

_PROC = Path("/proc")
_ROUNDS = 50
_LISTED = (_PROC / "self" / "task" / str(os.getpid()) / "children").exists()
"""Whether the kernel lists the children of a process, which is far cheaper than to look at all processes."""


class Descent:
    """A parser process and all below it.

    It adopts the orphans among its descendants, so none leaves its tree while it lives; those seen once are
    remembered, so that they end even if it died before.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: set[psutil.Process] = set()

    def alone(self) -> bool:
        """Whether nothing runs below it."""
        return not self._below()

    def resident_bytes(self) -> int:
        """What it and those below it hold in memory; shared pages count for each."""
        return sum(map(_resident, [self._pid, *(process.pid for process in self._below())]))

    def kill(self) -> None:
        """Kill it, its session, all below it, and those seen before.

        All are stopped first, again and again until no new one appears, so that none starts another meanwhile.
        """
        _signal(self._pid, signal.SIGSTOP)
        stopped: set[psutil.Process] = set()
        for _ in range(_ROUNDS):
            new = self._below() - stopped
            for process in new:
                _signal(process.pid, signal.SIGSTOP)
            if not new:
                break
            stopped |= new
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        for process in self._seen:
            with suppress(psutil.Error):
                process.kill()

    def _below(self) -> set[psutil.Process]:
        found: set[psutil.Process] = set()
        for pid in _descendants(self._pid):
            with suppress(psutil.Error):
                found.add(psutil.Process(pid))
        self._seen |= found
        return found


def _descendants(pid: int) -> set[int]:
    if not _LISTED:
        with suppress(psutil.Error):
            return {child.pid for child in psutil.Process(pid).children(recursive=True)}
        return set()
    found: set[int] = set()
    pending = [pid]
    while pending:
        new = set(_children(pending.pop())) - found
        found |= new
        pending.extend(new)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                found.extend(map(int, (task / "children").read_bytes().split()))
    return found


def _resident(pid: int) -> int:
    with suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
