"""The embedded Postgres: one process owns the server of a data folder and restarts it, the others attach.

The socket's folder is private to the account that runs the server, which is all that guards it: local
connections need no password.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psycopg

from rag.catalog.server import (
    DATABASE_USER,
    SOCKET_NAME,
    Account,
    choose_account,
    ensure_data_folder,
    programs,
    settings,
    startup_error,
    stop_leftover,
)
from rag.core.errors import AnchorageError, CatalogError, DataFolderLockedError
from rag.ownership.folders import folder_errors, hold, is_short, private_folder

_logger = logging.getLogger(__name__)

_SOCKET_FOLDER_PREFIX = "anchorage-postgres-"
_START_SECONDS = 120.0
_ATTACH_SECONDS = 60.0
_FAST_STOP_SECONDS = 30.0
_LONGEST_BACKOFF = 5.0
_LOG_BYTES = 16 << 20


class EmbeddedPostgres:
    """The server of one data folder, run as a child of this process."""

    owned = True

    def __init__(self, data_dir: Path, lock: IO[str]) -> None:
        self._run = data_dir / "run"
        self._data = data_dir / "postgres"
        self._log_path = data_dir / "logs" / "postgres.log"
        self._lock = lock
        self._sockets = self._run / "postgres"
        self._programs = Path()
        self._account = Account()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where clients connect; the same across restarts."""
        return f"postgresql://{DATABASE_USER}@/postgres?host={quote(str(self._sockets), safe='')}"

    @property
    def pid(self) -> int:
        """Process id of the running server; 0 when there is none."""
        return self._process.pid if self._process and self._process.returncode is None else 0

    async def start(self) -> None:
        """Make the cluster where there is none and start the server. Raises :class:`ConfigurationError`."""
        self._programs = programs()
        self._account = await choose_account(self._data, self._programs)
        await ensure_data_folder(self._data, self._programs, self._account)
        await asyncio.to_thread(self._prepare_sockets)
        await stop_leftover(self._data, self._sockets)
        await self._launch()

    async def watch(self) -> None:
        """Restart the server whenever it dies; ends only by cancellation."""
        backoff = 0.0
        while True:
            if self._process is not None:
                code = await self._process.wait()
                _logger.error("the embedded Postgres ended", extra={"action": "postgres_died", "status": code})
            await asyncio.sleep(backoff)
            try:
                await stop_leftover(self._data, self._sockets)
                await self._launch()
                backoff = 0.0
            except (OSError, AnchorageError):
                backoff = min(_LONGEST_BACKOFF, backoff * 2 or 0.2)
                _logger.exception("the embedded Postgres did not restart", extra={"action": "postgres_restart_failed"})

    async def stop(self) -> None:
        """Shut the server down fast, by force when it does not follow, and take back what was published."""
        await self._end_process()
        await asyncio.to_thread(self._withdraw)

    async def _end_process(self) -> None:
        process = self._process
        if process is None:
            return
        for each in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                process.send_signal(each)
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAST_STOP_SECONDS):
                    await process.wait()
                    return

    def _withdraw(self) -> None:
        (self._run / "postgres.json").unlink(missing_ok=True)
        if self._sockets.parent != self._run:
            shutil.rmtree(self._sockets, ignore_errors=True)
        self._lock.close()

    def _prepare_sockets(self) -> None:
        if not is_short(self._sockets / SOCKET_NAME):
            self._sockets = private_folder(
                self._run / "postgres.sockets",
                prefix=_SOCKET_FOLDER_PREFIX,
                owners=(os.geteuid(), self._account.uid),
            )
        self._account.own(self._sockets)

    async def _launch(self) -> None:
        log = await asyncio.to_thread(_open_log, self._log_path)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A terminal's Ctrl-C goes to the whole group; the owner stops the server last.
                start_new_session=True,
            )
            start = await asyncio.to_thread(log.tell)
        finally:
            log.close()
        await self._until_ready(self._process, start)
        await asyncio.to_thread(publish_address, self._run, self._process.pid, self.url)

    def _command(self) -> list[str]:
        return [
            *self._account.prefix,
            str(self._programs / "postgres"),
            *("-D", str(self._data)),
            *("-k", str(self._sockets)),
            *settings(),
        ]

    async def _until_ready(self, process: asyncio.subprocess.Process, log_start: int) -> None:
        pause = 0.02
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while not await answers(self.url):
            if process.returncode is not None:
                output = await asyncio.to_thread(_read_from, self._log_path, log_start)
                raise startup_error("the embedded Postgres did not start", output)
            if asyncio.get_running_loop().time() > deadline:
                raise CatalogError(f"the embedded Postgres did not answer within {_START_SECONDS:.0f} s")
            await asyncio.sleep(pause)
            pause = min(0.2, pause * 1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedPostgres:
    """The server that another process owns."""

    url: str
    data_dir: Path
    owned: bool = False

    async def watch(self) -> None:
        """Return when its owner has gone."""
        while True:
            await asyncio.sleep(2.0)
            with suppress(DataFolderLockedError):
                lock = await asyncio.to_thread(_lock, self.data_dir)
                lock.close()
                return


@asynccontextmanager
async def open_embedded_postgres(data_dir: Path | str) -> AsyncIterator[EmbeddedPostgres]:
    """Own and run the server under ``data_dir``; stopped on the way out. Run ``watch()`` beside your work.

    Raises :class:`DataFolderLockedError` when a live process owns it, :class:`DataFolderError`,
    :class:`MissingExtraError`, :class:`StorageFullError`.
    """
    folder = await asyncio.to_thread(_prepare, Path(data_dir))
    server = EmbeddedPostgres(folder, await asyncio.to_thread(_lock, folder))
    try:
        with folder_errors(folder):
            await server.start()
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def attach_or_own(data_dir: Path | str) -> AsyncIterator[EmbeddedPostgres | AttachedPostgres]:
    """Attach to the server that another live process owns, else own it: whoever starts first."""
    async with contextlib.AsyncExitStack() as stack:
        yield await _first(Path(data_dir), stack)


async def _first(data_dir: Path, stack: contextlib.AsyncExitStack) -> EmbeddedPostgres | AttachedPostgres:
    try:
        async with asyncio.timeout(_ATTACH_SECONDS):
            while True:
                with suppress(DataFolderLockedError):
                    return await stack.enter_async_context(open_embedded_postgres(data_dir))
                url = _url(await asyncio.to_thread(_published, data_dir / "run"))
                if url is not None and await answers(url):
                    return AttachedPostgres(url=url, data_dir=data_dir)
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise CatalogError(f"the Postgres of {data_dir} is owned by another process and does not answer") from None


async def answers(url: str) -> bool:
    """Whether a server accepts connections there."""
    try:
        connection = await psycopg.AsyncConnection.connect(url, connect_timeout=5)
    except (psycopg.Error, OSError):
        return False
    await connection.close()
    return True


def publish_address(run: Path, pid: int, url: str) -> None:
    """Write ``postgres.json`` for those that attach, readable to this account only."""
    temporary = run / "postgres.json.new"
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"pid": pid, "url": url}, file)
    temporary.replace(run / "postgres.json")


def _published(run: Path) -> str | None:
    try:
        return (run / "postgres.json").read_text(encoding="utf-8")
    except OSError:
        return None


def _url(published: str | None) -> str | None:
    try:
        return str(json.loads(published or "")["url"])
    except (ValueError, KeyError, TypeError):
        return None


def _prepare(data_dir: Path) -> Path:
    folder = data_dir.expanduser().absolute()
    with folder_errors(folder):
        if not folder.exists():
            folder.mkdir(parents=True, mode=0o700)
        for name in ("run", "logs"):
            (folder / name).mkdir(exist_ok=True)
    return folder


def _lock(data_dir: Path) -> IO[str]:
    with folder_errors(data_dir):
        file = hold(data_dir / "run" / "postgres.lock")
    if file is None:
        raise DataFolderLockedError(f"another process already runs the Postgres of {data_dir}")
    return file


def _open_log(path: Path) -> IO[bytes]:
    if path.exists() and path.stat().st_size > _LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    log = path.open("ab")
    log.seek(0, os.SEEK_END)
    return log


def _read_from(path: Path, start: int) -> str:
    with path.open("rb") as log:
        log.seek(start)
        return log.read(1 << 16).decode(errors="replace")
