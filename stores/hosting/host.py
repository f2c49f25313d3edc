"""Whoever comes first owns the process; the others attach, and one of them takes over when the owner goes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Protocol, TypeAlias

from rag.core.errors import ConfigurationError, StoreError
from rag.ownership.backoff import Backoff
from rag.ownership.folders import folder_errors, hold, is_plain, is_short, noted_folder, private_folder
from rag.ownership.processes import describe_exit
from stores.hosting.log import BoundedLog
from stores.hosting.process import Run, running

Command: TypeAlias = Callable[[Path], Sequence[str]]
"""Makes the command line of a process that listens on the socket."""
Ping: TypeAlias = Callable[[Path], Awaitable[None]]
"""Asks whether something answers on the socket; raises when it does not."""

_SOCKET_FOLDER_PREFIX = "anchorage-store-"
_PING_SECONDS = 5.0
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.2
_FIRST_BACKOFF = 0.2
_LONGEST_BACKOFF = 5.0
_STABLE_SECONDS = 30.0

_logger = logging.getLogger(__name__)


class Hosted(Protocol):
    """The process of a folder, wherever it was started."""

    @property
    def socket(self) -> Path:
        """Where it listens: at most 107 bytes of plain ASCII, the same across restarts and owners."""
        ...

    @property
    def owned(self) -> bool:
        """Whether this process is its owner now."""
        ...

    @property
    def pid(self) -> int:
        """Its process id where it is ours and runs, else 0."""
        ...


@asynccontextmanager
async def attach_or_own(
    folder: Path, *, name: str, command: Command, ping: Ping, ready_timeout: float = 120.0
) -> AsyncIterator[Hosted]:
    """Share one process a folder; inside, it is kept running: restarted when it dies, taken over from a lost owner.

    ``name`` names its socket, lock and log in ``folder``, which is made where it is missing. It answers on the
    way in: at most ``ready_timeout`` seconds are given to its start, and as many to attaching. It ends with its
    owner, whatever way that one ends, and must have made durable by then what it acknowledged. A command that
    ends with 2 cannot use its configuration. Raises ``ConfigurationError``, ``DataFolderError``, ``StoreError``
    with the end of its log, ``StorageFullError``.
    """
    host = Host(folder, name=name, command=command, ping=ping, ready_timeout=ready_timeout)
    keeper = asyncio.create_task(host.keep(), name=f"host of {name}")
    ready = asyncio.create_task(host.ready.wait())
    try:
        await asyncio.wait({keeper, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not host.ready.is_set():
            keeper.result()
        yield host
    finally:
        ready.cancel()
        keeper.cancel()
        await asyncio.wait({keeper, ready})


class Host:
    """Keeps the process of one folder running, as its owner or in wait of being that; see :class:`Hosted`."""

    def __init__(self, folder: Path, *, name: str, command: Command, ping: Ping, ready_timeout: float) -> None:
        self._folder = folder.absolute()
        self._usual_socket = self._folder / f"{name}.sock"
        self.socket = self._usual_socket
        self.ready = asyncio.Event()
        self._name = name
        self._command = command
        self._ping = ping
        self._ready_timeout = ready_timeout
        self._log = BoundedLog(self._folder / f"{name}.log")
        self._lock: IO[str] | None = None
        self._run: Run | None = None

    @property
    def owned(self) -> bool:
        """See :class:`Hosted`."""
        return self._lock is not None

    @property
    def pid(self) -> int:
        """See :class:`Hosted`."""
        return self._run.process.pid if self._run and self._run.process.returncode is None else 0

    async def keep(self) -> None:
        """Attach, then own once that can be had; ends by cancellation, or by the error of a first start."""
        backoff = Backoff(first=_FIRST_BACKOFF, longest=_LONGEST_BACKOFF, stable=_STABLE_SECONDS)
        try:
            while True:
                backoff.started()
                try:
                    with folder_errors(self._folder):
                        await self._take_a_turn()
                except Exception:
                    # Whatever it was, a host that has served is started again: nobody else would.
                    if not self.ready.is_set():
                        raise
                    _logger.exception("the host process did not start again", extra=self._labels("host_start_failed"))
                await asyncio.sleep(backoff.died())
        finally:
            self._release()

    async def _take_a_turn(self) -> None:
        """One run of the process, once this is its owner."""
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True, mode=0o700)
        if self._lock is None:
            self._lock = await self._wait_for_lock()
        await asyncio.to_thread(self._clear_socket)
        async with running(self._command(self.socket), log=self._log, lock=self._lock.fileno()) as run:
            self._run = run
            await self._until_answering(run)
            self.ready.set()
            code = await run.process.wait()
        _logger.error("the host process ended: %s", describe_exit(code), extra=self._labels("host_died"))

    async def _wait_for_lock(self) -> IO[str]:
        """The lock, once its owner has gone; meanwhile the owner's process is found."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._ready_timeout
        while (lock := hold(self._folder / f"{self._name}.lock")) is None:
            if not self.ready.is_set():
                await self._find()
                if loop.time() > deadline:
                    raise StoreError(f"{self._what} is owned by another process and does not answer")
            await asyncio.sleep(_LONGEST_PAUSE)
        return lock

    async def _find(self) -> None:
        """Note the owner's process where it answers."""
        place = await asyncio.to_thread(self._published_socket)
        if place is not None and await self._answers(place) is None:
            self.socket = place
            self.ready.set()

    def _published_socket(self) -> Path | None:
        if _may_hold_a_socket(self._usual_socket):
            return self._usual_socket
        folder = noted_folder(self._note, owners=(os.geteuid(),))
        return folder / self._usual_socket.name if folder else None

    def _clear_socket(self) -> None:
        """Choose where the socket lies and remove what a killed process left there.

        A folder outside ours is kept when all is over: a stranger could put his own under the name it had.
        """
        if not _may_hold_a_socket(self._usual_socket):
            folder = private_folder(self._note, prefix=_SOCKET_FOLDER_PREFIX, owners=(os.geteuid(),))
            self.socket = folder / self._usual_socket.name
            if not _may_hold_a_socket(self.socket):
                raise ConfigurationError(f"no socket can lie in {folder}: set TMPDIR to a short folder of plain ASCII")
        self.socket.unlink(missing_ok=True)

    async def _until_answering(self, run: Run) -> None:
        pause, fault = _FIRST_PAUSE, ""
        try:
            async with asyncio.timeout(self._ready_timeout):
                while (refusal := await self._answers(self.socket)) is not None:
                    fault = refusal
                    if run.process.returncode is not None:
                        raise await run.start_error(self._what)
                    await asyncio.sleep(pause)
                    pause = min(_LONGEST_PAUSE, pause * 1.5)
        except TimeoutError:
            said = " / ".join(part for part in (fault, self._log.tail()) if part)
            raise StoreError(f"{self._what} did not answer within {self._ready_timeout:g} s: {said}") from None

    async def _answers(self, socket: Path) -> str | None:
        """What is wrong with the answer; nothing is when it is ``None``."""
        try:
            async with asyncio.timeout(_PING_SECONDS):
                await self._ping(socket)
        except Exception as error:  # noqa: BLE001  whatever a client raises, it is no answer
            return f"{type(error).__name__}: {error}"
        return None

    def _release(self) -> None:
        if self._lock is not None:
            with suppress(OSError):
                self.socket.unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def _labels(self, action: str) -> dict[str, str]:
        return {"action": action, "engine": self._name}

    @property
    def _what(self) -> str:
        return f"the {self._name} process of {self._folder}"

    @property
    def _note(self) -> Path:
        return self._folder / f"{self._name}.sockets"


def _may_hold_a_socket(path: Path) -> bool:
    return is_short(path) and is_plain(path)
