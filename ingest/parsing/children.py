"""Parser processes that can be killed: warmed up ahead, one document at a time, replaced when used up.

Each is the leader of its own session; ending it ends whatever it started. It works in a folder of its own,
which goes with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

import ingest
from ingest.parsing.failures import KILLED, OUTPUT, TIMEOUT
from ingest.parsing.parsers import PARSERS
from ingest.parsing.wire import MAX_HEADER_BYTES, PREFIX, Reply, WireError, frame_head, read_reply
from rag.core.errors import CapacityError

_logger = logging.getLogger(__name__)

START_SECONDS = 60.0
TURN_SECONDS = 120.0
_REAP_SECONDS = 10.0
_RESTART_PAUSE = 1.0
_SMALL_REPLY = 65_536
_PIPE_BYTES = 2**20
_FOLDER_PREFIX = "anchorage-parse-"
_CLOCK_SECONDS = 2.0
"""How far the clocks of processes and files may be apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """What a parser process may use. ``documents`` and ``resident_bytes`` decide when it is replaced."""

    memory_bytes: int
    output_bytes: int
    documents: int = 100
    resident_bytes: int = 512 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A document to parse within ``seconds`` from the moment a child takes it."""

    content: bytes
    source: str
    media_type: str
    seconds: float


class _Child:
    """One running process."""

    def __init__(self, process: Process, folder: Path, limits: ChildLimits) -> None:
        self._process = process
        self._folder = folder
        self._limits = limits
        self._documents = 0
        self._usable = True
        self._killed = False
        self.retired = asyncio.Event()
        self.closed = asyncio.Event()

    async def ready(self) -> None:
        """Return when everything is imported. Raises ``EOFError`` if the process ended instead."""
        await self._read()

    async def parse(self, request: Request) -> Reply:
        """Always within the request's seconds, after which the process is gone."""
        usable, self._usable = self._usable, False
        if not usable:
            raise ValueError("a child that lost its place in the conversation")
        try:
            async with asyncio.timeout(request.seconds):
                reply = await self._ask(request)
        except TimeoutError:
            return _failure(TIMEOUT, f"parsing took longer than {request.seconds:g} seconds")
        except (EOFError, ConnectionError):
            return _failure(KILLED, "the parser process ended while it read the document")
        except _TooLargeError:
            return _failure(OUTPUT, "the document gives more text than is allowed")
        except WireError:
            return _failure(KILLED, "the parser process gave an unreadable reply")
        self._documents += 1
        fresh = self._documents < self._limits.documents and reply.peak_bytes < self._limits.resident_bytes
        self._usable = fresh
        return reply

    @property
    def usable(self) -> bool:
        """Whether it may take another document."""
        return self._usable and self._process.returncode is None

    async def _ask(self, request: Request) -> Reply:
        stdin = self._process.stdin
        if stdin is None:
            raise EOFError
        header = {"source": request.source, "media_type": request.media_type, "seconds": request.seconds}
        stdin.write(frame_head(header, body_size=len(request.content)))
        stdin.write(request.content)
        await stdin.drain()
        answer, body = await self._read()
        if len(answer) + len(body) <= _SMALL_REPLY:
            return read_reply(answer, body)
        return await asyncio.to_thread(read_reply, answer, body)

    async def _read(self) -> tuple[bytes, bytes]:
        stdout = self._process.stdout
        if stdout is None:
            raise EOFError
        header_size, body_size = PREFIX.unpack(await stdout.readexactly(PREFIX.size))
        if header_size > MAX_HEADER_BYTES or header_size + body_size > self._limits.output_bytes + _SMALL_REPLY:
            raise _TooLargeError
        return await stdout.readexactly(header_size), await stdout.readexactly(body_size)

    async def clear(self) -> None:
        """Wipe its folder."""
        await asyncio.to_thread(_clear, self._folder)

    def kill(self) -> None:
        """End it and everything in its session at once."""
        self._usable = False
        if self._killed:
            return
        self._killed = True
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Kill, reap, and remove its folder."""
        self.kill()
        try:
            async with asyncio.timeout(_REAP_SECONDS):
                await self._end()
        except TimeoutError:
            _logger.warning("a parser process did not end", extra={"action": "parser_not_reaped"})
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self.closed.set()

    async def _end(self) -> None:
        """Wait for the end of the process: that of its output first, or it would never count as ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            while await self._process.stdout.read(_PIPE_BYTES):
                continue
        await self._process.wait()


class _TooLargeError(Exception):
    """The reply is larger than the limit."""


class Children:
    """The processes. Made by :func:`open_children`."""

    def __init__(self, *, limits: ChildLimits, parsers: Mapping[str, str]) -> None:
        self._limits = limits
        self._parsers = parsers
        self._idle: asyncio.LifoQueue[_Child] = asyncio.LifoQueue()

    async def parse(self, request: Request) -> Reply:
        """Have a child parse a document; a failure of any kind is a reply with a code.

        Raises ``CapacityError`` when no child becomes free in ``TURN_SECONDS``. When this returns or is
        cancelled, a child that had to be stopped is gone, with its folder.
        """
        child = await self._take()
        try:
            reply = await child.parse(request)
            if child.usable:
                await child.clear()
            return reply
        finally:
            await self._give_back(child)

    async def _take(self) -> _Child:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                return await self._idle.get()
        except TimeoutError as error:
            raise CapacityError("no parser process became free", retry_after=10.0) from error

    async def _give_back(self, child: _Child) -> None:
        if child.usable:
            self._idle.put_nowait(child)
            return
        child.kill()
        child.retired.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_REAP_SECONDS):
                await child.closed.wait()

    async def keep_one(self) -> None:
        """Own one process after the other, each until it is used up; runs until cancelled."""
        while True:
            try:
                child = await self._start()
            except (OSError, EOFError, TimeoutError, _TooLargeError):
                _logger.exception("a parser process did not start", extra={"action": "parser_start_failed"})
                await asyncio.sleep(_RESTART_PAUSE)
                continue
            self._idle.put_nowait(child)
            try:
                await child.retired.wait()
            finally:
                await child.close()

    async def _start(self) -> _Child:
        """A process that has imported everything."""
        folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-"))
        try:
            process = await self._spawn(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        child = _Child(process, folder, self._limits)
        try:
            async with asyncio.timeout(START_SECONDS):
                await child.ready()
        except BaseException:
            await child.close()
            raise
        return child

    async def _spawn(self, folder: Path) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "ingest.parsing.child",
            str(self._limits.memory_bytes),
            str(self._limits.output_bytes),
            str(os.getpid()),
            json.dumps(dict(self._parsers)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd=folder,
            env=_environment(folder),
            start_new_session=True,
            limit=_PIPE_BYTES,
        )


def _environment(folder: Path) -> dict[str, str]:
    """All that a child is told: where the packages are, and its own folder; none of the service's secrets."""
    places = [str(Path(ingest.__file__).parent.parent), *filter(None, sys.path)]
    return {
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(places)),
        "PYTHONHASHSEED": "0",
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }


def _failure(code: str, message: str) -> Reply:
    return Reply(parser="", peak_bytes=0, code=code, message=message)


def _clear(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def remove_leftovers(temporary: Path) -> None:
    """Remove the folders of owners that were killed: no process has their number, or one that began later."""
    for folder in temporary.glob(f"{_FOLDER_PREFIX}*-*"):
        owner = folder.name.removeprefix(_FOLDER_PREFIX).partition("-")[0]
        with suppress(FileNotFoundError):
            if owner.isdigit() and not _owns(int(owner), folder):
                shutil.rmtree(folder, ignore_errors=True)


def _owns(pid: int, folder: Path) -> bool:
    touched = folder.stat().st_mtime
    try:
        return psutil.Process(pid).create_time() <= touched + _CLOCK_SECONDS
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


@asynccontextmanager
async def open_children(
    *, count: int, limits: ChildLimits, parsers: Mapping[str, str] = PARSERS
) -> AsyncIterator[Children]:
    """Own ``count`` processes; opening starts them and returns at once, closing ends them."""
    await asyncio.to_thread(remove_leftovers, Path(tempfile.gettempdir()))
    children = Children(limits=limits, parsers=parsers)
    keepers = [asyncio.create_task(children.keep_one(), name=f"parser process {number}") for number in range(count)]
    try:
        yield children
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.wait(keepers)
