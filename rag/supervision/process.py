"""Child processes in groups of their own that do not outlive their parent."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to run: its arguments, and environment variables on top of those of this process.

    ``defaults`` are variables for those that this process does not have.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)


async def spawn(launch: Launch, *, log: Path) -> asyncio.subprocess.Process:
    """Start a process group whose output goes to the end of ``log``; its leader gets SIGTERM when we die."""
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            *launch.arguments,
            env={**launch.defaults, **extended_environment(launch.environment)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )


def extended_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with ``variables`` on top: settings reach the children this way."""
    return {**os.environ, **variables}


def die_with_parent() -> Callable[[], None]:
    """Return what a child calls before it becomes its program, so that it is ended when its parent dies."""
    parent = os.getpid()

    def ask_kernel() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return ask_kernel


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to every process of a group; an empty group is a no-op."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def describe_exit(code: int) -> str:
    """Say how a process ended."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
