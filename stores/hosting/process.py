"""One run of the process: started with the lock in its hands, ended with everything that it started."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from rag.core.errors import AnchorageError, ConfigurationError, StorageFullError, StoreError
from rag.ownership.processes import describe_exit, die_with_parent, signal_group
from stores.hosting.log import BoundedLog

CONFIGURATION_EXIT = 2
"""The exit code by which a command says that its configuration cannot be used: starting it again is no help."""

_GRACE_SECONDS = 10.0
_LAST_OUTPUT_SECONDS = 1.0
_CHUNK = 65_536

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A running process and the task that reads what it says."""

    process: asyncio.subprocess.Process
    reading: asyncio.Task[None]
    log: BoundedLog

    async def start_error(self, what: str) -> AnchorageError:
        """The error for a process that ended before it answered; ``what`` names it."""
        await asyncio.wait({self.reading}, timeout=_LAST_OUTPUT_SECONDS)
        return start_error(what, self.process.returncode or 0, self.log.tail())


def start_error(what: str, code: int, output: str) -> AnchorageError:
    """The error that an exit code and the last lines of the output call for."""
    message = f"{what} did not start ({describe_exit(code)}){f': {output}' if output else ''}"
    if "No space left on device" in output:
        return StorageFullError(message)
    return ConfigurationError(message) if code == CONFIGURATION_EXIT else StoreError(message)


@asynccontextmanager
async def running(command: Sequence[str], *, log: BoundedLog, lock: int) -> AsyncIterator[Run]:
    """Run the command; its group is ended on the way out: asked first, killed after a while or when cancelled.

    It keeps the descriptor ``lock`` open, so that nobody else owns the folder before it is gone, and it is
    killed when this process dies. Raises ``ConfigurationError`` for a command that cannot be run.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=(lock,),
            # A terminal's Ctrl-C goes to the whole group; the owner stops the process last.
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
    except OSError as error:
        raise ConfigurationError(f"{command[0]} cannot be run: {error.strerror}") from error
    log.forget()
    reading = asyncio.create_task(_read(process.stdout, log), name="host process log")
    try:
        yield Run(process=process, reading=reading, log=log)
    finally:
        try:
            await _end(process)
        finally:
            signal_group(process.pid, signal.SIGKILL)
            reading.cancel()
            await asyncio.wait({reading})


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        _logger.warning("the host process is killed: it did not end in time", extra={"action": "host_killed"})
        signal_group(process.pid, signal.SIGKILL)
        await process.wait()


async def _read(stream: asyncio.StreamReader | None, log: BoundedLog) -> None:
    """Keep reading whatever happens to the log: a process whose output nobody reads stops."""
    while stream and (output := await stream.read(_CHUNK)):
        try:
            await asyncio.to_thread(log.append, output)
        except OSError:
            _logger.warning("the host process's log cannot be written", extra={"action": "host_log_failed"})
