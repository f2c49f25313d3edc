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
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import ingest
from ingest.parsing.descent import Descent
from ingest.parsing.failures import KILLED, MEMORY, OUTPUT, TIMEOUT
from ingest.parsing.folders import FOLDER_PREFIX, evict, is_larger, remove_leftovers, wipe
from ingest.parsing.ways import Tier, Ways
from ingest.parsing.wire import MAX_HEADER_BYTES, PREFIX, Reply, WireError, frame_head, read_reply
from rag.core.errors import CapacityError

_logger = logging.getLogger(__name__)

START_SECONDS = 60.0
TURN_SECONDS = 120.0
_REAP_SECONDS = 10.0
_RESTART_PAUSE = 1.0
_SMALL_REPLY = 65_536
_PIPE_BYTES = 2**20
_WATCH_SECONDS = 0.05
_LOOKS_A_FOLDER = 4
"""The folder is measured every so many looks at the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """What a parser process may use. ``documents`` and ``resident_bytes`` decide when it is replaced."""

    memory_bytes: int
    output_bytes: int
    documents: int = 100
    resident_bytes: int = 512 * 2**20
    folder_bytes: int = 256 * 2**20
    folder_entries: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A document to parse within ``seconds`` by the parser of that ``number`` in the tier's chain."""

    content: bytes
    source: str
    media_type: str
    seconds: float
    tier: Tier = Tier.FULL
    number: int = 0


class Child:
    """One running process."""

    def __init__(self, process: Process, folder: Path, limits: ChildLimits) -> None:
        self._process = process
        self._folder = folder
        self._limits = limits
        self._documents = 0
        self._usable = True
        self._killed = False
        self._descent = Descent(process.pid)
        self.retired = asyncio.Event()
        self.closed = asyncio.Event()

    async def ready(self) -> str:
        """How it left the network, once everything is imported. Raises ``EOFError`` if the process ended instead."""
        greeting, _ = await self._read()
        return str(json.loads(greeting)["network"])

    async def parse(self, request: Request) -> Reply:
        """Always within the request's seconds; a failure is a reply with a code, after which the process is gone."""
        usable, self._usable = self._usable, False
        if not usable:
            raise ValueError("a child that lost its place in the conversation")
        asking = asyncio.create_task(self._ask(request))
        watching = asyncio.create_task(self._overstep())
        try:
            await asyncio.wait({asking, watching}, timeout=request.seconds, return_when=asyncio.FIRST_COMPLETED)
            return self._outcome(asking, watching, request.seconds)
        finally:
            if not self._usable:
                self.kill()
            await _stop(asking, watching)

    def _outcome(self, asking: asyncio.Task[Reply], watching: asyncio.Task[Reply], seconds: float) -> Reply:
        if not asking.done():
            return watching.result() if watching.done() else _late(seconds)
        try:
            reply = asking.result()
        except (EOFError, ConnectionError):
            return _failure(KILLED, "the parser process ended while it read the document")
        except _TooLargeError:
            return _failure(OUTPUT, "the document gives more text than is allowed")
        except WireError:
            return _failure(KILLED, "the parser process gave an unreadable reply")
        self._documents += 1
        fresh = self._documents < self._limits.documents and reply.peak_bytes < self._limits.resident_bytes
        self._usable = fresh and self._descent.alone()
        return reply

    async def _overstep(self) -> Reply:
        """Return once the process ended, or uses more than it may; look every ``_WATCH_SECONDS``."""
        limits, look = self._limits, 0
        while self._process.returncode is None:
            await asyncio.sleep(_WATCH_SECONDS)
            look += 1
            if self._descent.resident_bytes() > limits.memory_bytes:
                return _failure(MEMORY, "the document needs more memory than a parser may use")
            if look % _LOOKS_A_FOLDER == 0 and await asyncio.to_thread(
                is_larger, self._folder, size=limits.folder_bytes, entries=limits.folder_entries
            ):
                return _failure(OUTPUT, "the parser wrote more temporary files than it may")
        return _failure(KILLED, "the parser process ended while it read the document")

    @property
    def usable(self) -> bool:
        """Whether it may take another document."""
        return self._usable and self._process.returncode is None

    async def _ask(self, request: Request) -> Reply:
        stdin = self._process.stdin
        if stdin is None:
            raise EOFError
        header = {
            "source": request.source, "media_type": request.media_type, "seconds": request.seconds,
            "tier": int(request.tier), "number": request.number,
        }  # fmt: skip
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
        await asyncio.to_thread(wipe, self._folder)

    def kill(self) -> None:
        """End it and everything it started at once."""
        self._usable = False
        if self._killed:
            return
        self._killed = True
        self._descent.kill()

    async def close(self) -> None:
        """Kill, reap, and remove its folder."""
        self.kill()
        try:
            async with asyncio.timeout(_REAP_SECONDS):
                await asyncio.to_thread(evict, self._folder)
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

    def __init__(self, *, most: int, limits: ChildLimits, ways: Ways) -> None:
        self._most = most
        self._limits = limits
        self._ways = ways
        self._idle: asyncio.LifoQueue[Child] = asyncio.LifoQueue()
        self._keepers: list[asyncio.Task[None]] = []
        self._network: str | None = None

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Child]:
        """One child for one request.

        Raises ``CapacityError`` when none becomes free in ``TURN_SECONDS``. When this ends, a child that had
        to be stopped is gone, with its folder.
        """
        child = await self._take()
        try:
            yield child
            if child.usable:
                await child.clear()
        finally:
            await self._give_back(child)

    def grow(self, count: int = 1) -> None:
        """Own ``count`` more processes, at most ``most`` in all."""
        for _ in range(min(count, self._most - len(self._keepers))):
            name = f"parser process {len(self._keepers)}"
            self._keepers.append(asyncio.create_task(self._keep_one(), name=name))

    async def close(self) -> None:
        """End all processes."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.wait(self._keepers)

    async def _take(self) -> Child:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                child = await self._idle.get()
        except TimeoutError as error:
            raise CapacityError("no parser process became free", retry_after=10.0) from error
        if self._idle.empty():
            self.grow()
        return child

    async def _give_back(self, child: Child) -> None:
        if child.usable:
            self._idle.put_nowait(child)
            return
        child.kill()
        child.retired.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_REAP_SECONDS):
                await child.closed.wait()

    async def _keep_one(self) -> None:
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

    async def _start(self) -> Child:
        """A process that has imported everything."""
        folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
        try:
            process = await self._spawn(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        child = Child(process, folder, self._limits)
        try:
            async with asyncio.timeout(START_SECONDS):
                self._note(await child.ready())
        except BaseException:
            await child.close()
            raise
        return child

    def _note(self, network: str) -> None:
        """Say once how the processes are kept from the network."""
        if network != self._network:
            self._network = network
            _logger.info("parsers have no network: %s", network, extra={"action": "parser_confined"})

    async def _spawn(self, folder: Path) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "ingest.parsing.child",
            str(self._limits.memory_bytes),
            str(self._limits.output_bytes),
            str(os.getpid()),
            json.dumps(self._ways.to_json()),
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
        "OMP_THREAD_LIMIT": "1",
    }


def _failure(code: str, message: str) -> Reply:
    return Reply(parser="", peak_bytes=0, code=code, message=message)


def _late(seconds: float) -> Reply:
    return _failure(TIMEOUT, f"parsing took longer than {seconds:.3g} seconds")


async def _stop(*tasks: asyncio.Task[Reply]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def open_children(*, count: int, most: int, limits: ChildLimits, ways: Ways) -> AsyncIterator[Children]:
    """Own ``count`` processes, and up to ``most`` when they are needed.

    Opening starts them and returns at once, closing ends them.
    """
    await asyncio.to_thread(remove_leftovers, Path(tempfile.gettempdir()))
    children = Children(most=most, limits=limits, ways=ways)
    children.grow(count)
    try:
        yield children
    finally:
        await children.close()
