"""The supervisor's side of its guardian."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

_LEAVE_TIME = 30.0
_RESPAWN_DELAY = 0.5


class Guard:
    """Tells the guardian what would have to be ended; starts another one when it dies."""

    def __init__(self, *, lock: int) -> None:
        self._lock = lock
        self._entries = dict[str, None]()
        self._process: asyncio.subprocess.Process | None = None

    def watch_group(self, group: int) -> None:
        """Have a process group ended when we are killed."""
        self._add(f"group {group}")

    def forget_group(self, group: int) -> None:
        """The group is gone."""
        self._remove(f"group {group}")

    def watch_postgres(self, postmaster: Path) -> None:
        """Have the server whose ``postmaster.pid`` this is shut down when we are killed."""
        self._add(f"postmaster {postmaster}")

    def forget_postgres(self, postmaster: Path) -> None:
        """The server is stopped."""
        self._remove(f"postmaster {postmaster}")

    async def start(self) -> None:
        """Start the guardian and tell it everything."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "rag.supervision.guardian",
            stdin=asyncio.subprocess.PIPE,
            pass_fds=(self._lock,),
            start_new_session=True,
        )
        for entry in self._entries:
            self._tell(f"+{entry}")

    async def keep(self) -> None:
        """Start another guardian whenever it dies; runs until it is cancelled."""
        while self._process is not None:
            await self._process.wait()
            await asyncio.sleep(_RESPAWN_DELAY)
            starting = asyncio.ensure_future(self.start())
            try:
                await asyncio.shield(starting)
            finally:
                # A guardian that runs is told what it is there for, whatever comes between.
                await starting

    async def leave(self) -> None:
        """Close the pipe and wait for the guardian's end."""
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _LEAVE_TIME)
        except TimeoutError:
            process.kill()
            await process.wait()

    def _add(self, entry: str) -> None:
        self._entries[entry] = None
        self._tell(f"+{entry}")

    def _remove(self, entry: str) -> None:
        if entry in self._entries:
            del self._entries[entry]
            self._tell(f"-{entry}")

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(f"{line}\n".encode())


@asynccontextmanager
async def open_guard(*, lock: int) -> AsyncIterator[Guard]:
    """Run a guardian; at the end it ends what is still registered. ``lock`` is a descriptor it keeps open."""
    guard = Guard(lock=lock)
    await guard.start()
    keeper = asyncio.create_task(guard.keep())
    try:
        yield guard
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper
        await guard.leave()
