"""The guardian: a small process that ends what a supervisor leaves behind when it is killed.

It reads lines from the supervisor, ``+group N``, ``-group N`` and ``+postmaster FILE``. When the pipe ends, it
ends those groups, then the Postgres server whose process id stands in FILE. It holds the lock of the data folder
meanwhile, and uses the standard library only so that it is small and starts at once.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""
POSTGRES_GRACE = 10.0

_POLL = 0.05


def follow(lines: Iterable[str]) -> tuple[set[int], list[Path]]:
    """Read until the supervisor is gone; return the groups and the postmaster files that are still its own."""
    groups, postmasters = set[int](), list[Path]()
    for line in lines:
        command, _, value = line.strip().partition(" ")
        if command == "+group":
            groups.add(int(value))
        elif command == "-group":
            groups.discard(int(value))
        elif command == "+postmaster":
            postmasters.append(Path(value))
        elif command == "-postmaster":
            postmasters.remove(Path(value))
    return groups, postmasters


def end_groups(groups: Iterable[int]) -> None:
    """Ask every group to end, then make it."""
    remaining = [group for group in groups if _send_group(group, signal.SIGTERM)]
    _wait_until(lambda: not any(_send_group(group, 0) for group in remaining), seconds=GRACE)
    for group in remaining:
        _send_group(group, signal.SIGKILL)


def end_postgres(postmaster: Path) -> None:
    """Shut a Postgres server down fast; one that does not obey is told to quit at once."""
    pid = _postgres_pid(postmaster)
    if pid is None:
        return
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        if _wait_until(lambda: not _is_postgres(pid), seconds=POSTGRES_GRACE):
            return


def _postgres_pid(postmaster: Path) -> int | None:
    try:
        pid = int(postmaster.read_text(encoding="utf-8").splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pid if _is_postgres(pid) else None


def _is_postgres(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return state.partition("(")[2].startswith("postgres") and ") Z" not in state


def _send_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _wait_until(condition: Callable[[], bool], *, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL)
    return True


def main() -> None:
    """Guard until the supervisor is gone, then clean up after it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups, postmasters = follow(sys.stdin)
    end_groups(groups)
    for postmaster in postmasters:
        end_postgres(postmaster)


if __name__ == "__main__":
    main()
