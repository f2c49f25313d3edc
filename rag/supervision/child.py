"""A child that is kept running: started, watched until ready, started again when it dies."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from rag.core.errors import AnchorageError, ConfigurationError
from rag.ownership.backoff import Backoff
from rag.ownership.processes import describe_exit, signal_group
from rag.supervision.guard import Guard
from rag.supervision.logs import tail
from rag.supervision.process import Launch, spawn
from rag.supervision.refusal import EXIT_CODE, read_refusal

Report: TypeAlias = Callable[[str, str], None]
"""Takes the name of a child and what to say of it."""

PROBE_INTERVAL = 0.1
_TELLING_FAILURES = (3, 6, 12)
"""After so many deaths in a row the end of the log is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to run a child.

    ``launch`` makes its command for each start; a ``ConfigurationError`` of it ends the child for good.
    ``probe`` tells whether it is ready, ``where`` is said then, ``grace`` is seconds from SIGTERM to SIGKILL.
    ``troubled`` is called with the reason when it keeps ending or stays away, with none once it is ready.
    ``refused`` is called with the reason when it ends as one of ours does for a configuration that cannot be
    used, before it ever was ready: starting it again would not help.
    """

    name: str
    launch: Callable[[], Awaitable[Launch]]
    probe: Callable[[], Awaitable[bool]]
    log: Path
    where: str = ""
    grace: float = 10.0
    resigned: str = "it stays away"
    troubled: Callable[[str], None] = lambda _: None
    refused: Callable[[ConfigurationError], None] | None = None


class Child:
    """Runs a plan until it is stopped."""

    def __init__(self, plan: Plan, *, guard: Guard, report: Report, backoff: Backoff | None = None) -> None:
        self.plan = plan
        self.ready = asyncio.Event()
        self._guard = guard
        self._report = report
        self._backoff = backoff or Backoff()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._was_ready = False

    @property
    def pid(self) -> int | None:
        """The process id, while it runs."""
        return self._process.pid if self._process else None

    async def run(self) -> None:
        """Keep it running until :meth:`stop`; a cancelled run kills it."""
        try:
            while not self._stopping.is_set():
                if not await self._run_once():
                    return
        finally:
            self._ended.set()

    async def stop(self, *, hurry: asyncio.Event) -> None:
        """Ask it to end, give it its grace (none when ``hurry`` is set), then kill its whole group."""
        self._stopping.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
        await _first(self._ended, hurry, timeout=self.plan.grace)
        if self._process is not None:
            signal_group(self._process.pid, signal.SIGKILL)
        await self._ended.wait()

    async def _run_once(self) -> bool:
        """Run it to its end and wait out the delay; tell whether to go on."""
        begun = time.monotonic()
        launch = await self._make_launch()
        if launch is None:
            return False
        if not self._stopping.is_set():
            try:
                code = await self._run_process(launch, begun=begun)
            except OSError as error:
                await self._wait_to_restart(f"could not be started: {error.strerror}")
                return True
            if self.plan.refused and code == EXIT_CODE and not (self._was_ready or self._stopping.is_set()):
                self.plan.refused(read_refusal("".join(tail(self.plan.log, lines=1))))
                return False
            if not self._stopping.is_set():
                await self._wait_to_restart(f"ended ({describe_exit(code)})")
        return True

    async def _make_launch(self) -> Launch | None:
        """Make the command; stopping while it is made cancels that."""
        while not self._stopping.is_set():
            making = asyncio.ensure_future(self.plan.launch())
            stopping = asyncio.ensure_future(self._stopping.wait())
            try:
                await asyncio.wait({making, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if making.done():
                    return making.result()
            except ConfigurationError as error:
                self._report(self.plan.name, f"cannot be started: {error.message}; {self.plan.resigned}")
                self.plan.troubled(f"{self.plan.name} cannot be started: {error.message}")
                return None
            except AnchorageError as error:
                await self._wait_to_restart(f"could not be started: {error.message}")
            finally:
                for task in (making, stopping):
                    task.cancel()
                await asyncio.gather(making, stopping, return_exceptions=True)
        return None

    async def _run_process(self, launch: Launch, *, begun: float) -> int:
        self._backoff.started()
        process = await spawn(launch, log=self.plan.log)
        self._process = process
        self._guard.watch_group(process.pid)
        announcing = asyncio.create_task(self._announce(begun))
        try:
            return await process.wait()
        finally:
            announcing.cancel()
            signal_group(process.pid, signal.SIGKILL)
            self._guard.forget_group(process.pid)
            self._process = None
            self.ready.clear()

    async def _announce(self, begun: float) -> None:
        while not await self.plan.probe():  # noqa: ASYNC110  it asks another process
            await asyncio.sleep(PROBE_INTERVAL)
        self.ready.set()
        self._was_ready = True
        self.plan.troubled("")
        where = f": {self.plan.where}" if self.plan.where else ""
        self._report(self.plan.name, f"ready in {time.monotonic() - begun:.1f} s{where}")

    async def _wait_to_restart(self, what: str) -> None:
        delay = self._backoff.died()
        self._report(self.plan.name, f"{what}; starting again in {delay:.1f} s")
        if self._backoff.failures >= _TELLING_FAILURES[0]:
            self.plan.troubled(f"{self.plan.name} keeps ending; see {self.plan.log}")
        if self._backoff.failures in _TELLING_FAILURES:
            for line in tail(self.plan.log):
                self._report(self.plan.name, f"| {line}")
            self._report(self.plan.name, f"keeps ending; its whole log is {self.plan.log}")
        await _first(self._stopping, timeout=delay)


async def _first(*events: asyncio.Event, timeout: float) -> None:
    """Return when one of the events is set, or after ``timeout`` seconds."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
