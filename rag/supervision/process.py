"""Child processes in groups of their own that do not outlive their parent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rag.ownership.processes import die_with_parent


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
