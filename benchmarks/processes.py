"""A service of its own for a measurement: an embedded PostgreSQL, one API and one worker, each as its own process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from rag.catalog.embedded import EmbeddedPostgres, open_embedded_postgres
from rag.settings import Settings, load_settings
from rag.supervision.addresses import require_free

HOST = "127.0.0.1"
READY_SECONDS = 120.0
STOP_SECONDS = 60.0
_PROBE_SECONDS = 0.1
_COMMANDS = {"api": "serve", "worker": "worker"}


class Processes:
    """One API and one worker at a time, on one data folder.

    ``configuration``: variables without their ``ANCHORAGE_``.
    """

    def __init__(self, data_dir: Path, postgres: EmbeddedPostgres, configuration: Mapping[str, str]) -> None:
        self.url = f"http://{HOST}:{require_free(HOST, 0)}"
        self._configuration = configuration
        self._postgres = postgres
        self._data_dir = data_dir
        self._logs = data_dir / "logs"
        self._running: dict[str, asyncio.subprocess.Process] = {}

    @property
    def database_url(self) -> str:
        """Where the PostgreSQL listens."""
        return self._postgres.url

    def settings(self) -> Settings:
        """The settings of every process, for the one that looks on."""
        groups: dict[str, Any] = {}
        for name, value in self._configuration.items():
            group, _, option = name.lower().partition("__")
            if option:
                groups.setdefault(group, {})[option] = value
            else:
                groups[group] = value
        groups.setdefault("catalog", {})["url"] = self._postgres.url
        return load_settings(data_dir=self._data_dir, **groups)

    async def start(self, process: str, *instead: str) -> None:
        """Start ``api`` or ``worker``, or the module and arguments given ``instead``; an API is waited for."""
        command = instead or ("rag.cli", _COMMANDS[process])
        with (self._logs / f"{process}.log").open("ab") as log:
            self._running[process] = await asyncio.create_subprocess_exec(
                sys.executable, "-m", *command, env=self._environment(), stdout=log, stderr=log
            )
        if process == "api":
            await self._answering()

    def runs(self, process: str) -> bool:
        """Whether it has not ended."""
        running = self._running.get(process)
        return running is not None and running.returncode is None

    def pid(self, process: str) -> int:
        """Its process id."""
        return self._running[process].pid

    async def ended(self, process: str, *, seconds: float) -> bool:
        """Wait for a process to kill itself; ``False`` when it still runs."""
        try:
            async with asyncio.timeout(seconds):
                return await self._running[process].wait() == -signal.SIGKILL
        except TimeoutError:
            return False

    async def stop(self, process: str) -> None:
        """Ask it to end, and wait."""
        if self.runs(process):
            self._running[process].terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._running[process].wait()
            except TimeoutError:
                await self.kill(process)

    async def kill(self, process: str) -> None:
        """Kill ``api``, ``worker`` or ``postgres``; the last one is restarted by its owner."""
        if process == "postgres":
            os.kill(self._postmaster(), signal.SIGKILL)
        elif self.runs(process):
            self._running[process].kill()
            await self._running[process].wait()

    async def close(self) -> None:
        """End both."""
        await asyncio.gather(*(self.stop(process) for process in _COMMANDS))

    async def _answering(self) -> None:
        async with asyncio.timeout(READY_SECONDS), httpx.AsyncClient(trust_env=False) as client:
            while self.runs("api"):
                try:
                    if (await client.get(f"{self.url}/readyz")).status_code == httpx.codes.OK:
                        return
                except httpx.HTTPError:
                    pass
                await asyncio.sleep(_PROBE_SECONDS)

    def _postmaster(self) -> int:
        return int((self._data_dir / "postgres" / "postmaster.pid").read_text(encoding="utf-8").split()[0])

    def _environment(self) -> dict[str, str]:
        """Nothing of the caller's own configuration."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANCHORAGE_")}
        ours = {f"ANCHORAGE_{name}": value for name, value in self._configuration.items()}
        return {
            **kept,
            **ours,
            "ANCHORAGE_DATA_DIR": str(self._data_dir),
            "ANCHORAGE_CATALOG__URL": self._postgres.url,
            "ANCHORAGE_HTTP__PORT": self.url.rpartition(":")[2],
        }


@asynccontextmanager
async def open_processes(data_dir: Path, configuration: Mapping[str, str]) -> AsyncIterator[Processes]:
    """A PostgreSQL that is restarted when it is killed, and no other process yet."""
    async with open_embedded_postgres(data_dir) as postgres:
        watching = asyncio.create_task(postgres.watch(), name="postgres")
        processes = Processes(data_dir, postgres, configuration)
        try:
            yield processes
        finally:
            await processes.close()
            watching.cancel()
            await asyncio.wait({watching})
