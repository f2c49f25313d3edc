"""Starting the supervisor in the background, following it until it answers, and stopping it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click
import httpx

from rag.cli.exits import ExitCode
from rag.cli.output import note
from rag.core.errors import AnchorageError, CapacityError
from rag.supervision.lock import Owner, is_running, make_folder, read_owner
from rag.supervision.logs import rotate
from rag.supervision.process import extended_environment

START_SECONDS = 900.0
"""Longest wait for the API; the first start prepares models."""
GENERATION_SECONDS = 300.0
STOP_SECONDS = 90.0

_POLL = 0.1


class StartError(AnchorageError):
    """The service did not start."""

    code = "start_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Supervisor:
    """A supervisor that is followed: ours, whose log is passed on, or one that ran before."""

    folder: Path
    pid: int
    process: subprocess.Popen[bytes] | None = None
    lines: IO[str] | None = None

    @property
    def owner(self) -> Owner | None:
        """What it wrote down; ``None`` while it does not own the folder."""
        owner = read_owner(self.folder)
        return owner if owner is not None and owner.pid == self.pid else None

    def ended(self) -> bool:
        """Pass on what it said, and tell whether it has ended."""
        ended = self.process.poll() is not None if self.process else not is_running(self.pid)
        for line in self.lines or ():
            note(line.rstrip("\n"))
        return ended


def start_service(data_dir: Path, *, wait: str) -> int:
    """Have a supervisor in the background and wait for its API, or for generation too; one that runs already is kept.

    Returns its own exit code when it ends first, and 3 when only generation is not to be had although it should
    be. Raises ``DataFolderError``, ``StartError``; an interrupt while waiting stops one that was started here.
    """
    folder = data_dir.absolute()
    running = _running(folder)
    if running is not None:
        return _follow(running, wait=wait)
    make_folder(folder)
    log = rotate(folder / "logs" / "up.log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "rag.cli", "up"],
            env=extended_environment({"ANCHORAGE_DATA_DIR": str(folder), "PYTHONUNBUFFERED": "1"}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with log.open(encoding="utf-8", errors="replace") as lines, _stopped_on_interrupt(process):
        return _follow(_Supervisor(folder=folder, pid=process.pid, process=process, lines=lines), wait=wait)


def _running(folder: Path) -> _Supervisor | None:
    owner = read_owner(folder)
    return _Supervisor(folder=folder, pid=owner.pid) if owner is not None and owner.alive else None


def _follow(supervisor: _Supervisor, *, wait: str) -> int:
    owner = _wait_for_api(supervisor)
    if owner is None:
        return _ended_early(supervisor, wait=wait)
    already = "" if supervisor.process else "already running: "
    stopping = f"stop it with `anchorage --data-dir {supervisor.folder} up --stop`"
    click.echo(f"{already}process {owner.pid}, API {owner.url}; {stopping}")
    return _wait_for_generation(supervisor, url=owner.url) if wait == "generation" else ExitCode.OK


def _ended_early(supervisor: _Supervisor, *, wait: str) -> int:
    """Follow the one that was a moment faster; else return the exit code of the one that has ended.

    One that ran before and ended while it was waited for is replaced.
    """
    if supervisor.process is None:
        return start_service(supervisor.folder, wait=wait)
    code = supervisor.process.wait()
    faster = _running(supervisor.folder)
    if code == ExitCode.USAGE and faster is not None:
        return _follow(faster, wait=wait)
    return code


def _wait_for_api(supervisor: _Supervisor) -> Owner | None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if supervisor.ended():
            return None
        owner = supervisor.owner
        if owner is not None and owner.url and _readiness(owner.url) is not None:
            return owner
        time.sleep(_POLL)
    raise StartError(f"the API did not answer within {START_SECONDS:.0f} s; see {supervisor.folder / 'logs'}")


def _wait_for_generation(supervisor: _Supervisor, *, url: str) -> int:
    """Wait until answers are generated, or until it is clear that they will not be."""
    deadline = time.monotonic() + GENERATION_SECONDS
    why = "is not ready yet"
    while time.monotonic() < deadline:
        if supervisor.ended():
            raise StartError(f"the service has ended; see {supervisor.folder / 'logs'}")
        status = _generation_status(url)
        if status == "ready":
            return ExitCode.OK
        if status == "skipped":
            note("there is no generator here: answers are extractive")
            return ExitCode.OK
        owner = supervisor.owner
        if owner is not None and owner.no_generation:
            why = f"is not to be had ({owner.no_generation})"
            break
        time.sleep(5 * _POLL)
    note(f"generation {why}; until then answers are extractive")
    return ExitCode.PARTLY_FAILED


def _generation_status(url: str) -> str | None:
    dependencies = (_readiness(url) or {}).get("dependencies") or {}
    status: str | None = (dependencies.get("generation") or {}).get("status")
    return status


def _readiness(url: str) -> dict[str, Any] | None:
    """Return the answer of a service that takes requests, ``None`` otherwise."""
    try:
        response = httpx.get(f"{url}/readyz", timeout=3.0, trust_env=False)
        document = response.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    return document if response.is_success and isinstance(document, dict) else None


@contextmanager
def _stopped_on_interrupt(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        process.terminate()
        process.wait(STOP_SECONDS)
        raise


def stop_service(data_dir: Path) -> int:
    """Stop the service on a data folder and wait until nothing of it is left; none running is fine.

    Raises ``CapacityError`` when it does not end in time.
    """
    owner = read_owner(data_dir)
    if owner is None or not owner.pid:
        click.echo(f"nothing runs on {data_dir}")
        return ExitCode.OK
    with suppress(ProcessLookupError):
        os.kill(owner.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while read_owner(data_dir) is not None:
        if time.monotonic() >= deadline:
            raise CapacityError(f"process {owner.pid} does not end; kill it with `kill -9 {owner.pid}`")
        time.sleep(_POLL)
    click.echo(f"stopped process {owner.pid}")
    return ExitCode.OK
