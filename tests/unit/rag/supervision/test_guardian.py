"""The guardian cleans up after a supervisor that was killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from rag.supervision.guard import open_guard
from rag.supervision.guardian import end_groups, follow


def sleeper(*, deaf: bool = False) -> subprocess.Popen[bytes]:
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if deaf else ""
    program = f"import signal, sys, time\n{ignore}\nprint('up', flush=True)\ntime.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_it_keeps_what_was_registered_and_not_taken_back() -> None:
    lines = [
        "+group 5\n",
        "+group 6\n",
        "-group 5\n",
        "+postmaster /a b/p.pid\n",
        "+postmaster /c\n",
        "-postmaster /c\n",
    ]

    assert follow(lines) == ({6}, [Path("/a b/p.pid")])


def test_groups_are_asked_first_and_then_killed() -> None:
    polite, deaf = sleeper(), sleeper(deaf=True)

    end_groups([polite.pid, deaf.pid, 2**22 - 1])

    assert (polite.wait(20), deaf.wait(20)) == (-15, -9)


async def test_what_is_registered_ends_with_the_guard_and_what_was_taken_back_stays(tmp_path: Path) -> None:
    left, released = sleeper(), sleeper()
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    try:
        async with open_guard(lock=lock) as guard:
            guard.watch_group(left.pid)
            guard.watch_group(released.pid)
            guard.forget_group(released.pid)

        assert await asyncio.to_thread(left.wait, 20) == -15
        assert released.poll() is None
    finally:
        os.close(lock)
        released.kill()
        released.wait()


def guardians() -> list[psutil.Process]:
    """The guardians that this process started; a dead one that is not collected yet has no command line."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if "rag.supervision.guardian" in child.cmdline():
                found.append(child)
    return found


async def test_a_guardian_that_dies_is_replaced_and_told_everything_again(tmp_path: Path) -> None:
    left = sleeper()
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)

    try:
        async with open_guard(lock=lock) as guard:
            guard.watch_group(left.pid)
            (first,) = guardians()
            first.kill()
            async with asyncio.timeout(20):
                while not any(found.pid != first.pid for found in guardians()):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

        assert await asyncio.to_thread(left.wait, 20) == -15
    finally:
        os.close(lock)
