"""Starting the supervisor in the background, following it until it answers, and stopping it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import click
import httpx

from rag.cli.exits import ExitCode
from rag.cli.output import note
from rag.core.errors import AnchorageError, CapacityError
from rag.supervision.lock import Owner, locked_error, make_folder, read_owner
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


def start_service(data_dir: Path, *, wait: str) -> int:
    """Start a supervisor in the background and wait for its API, or for generation too.

    Returns its own exit code when it ends first, and 3 when only generation is late. Raises
    ``DataFolderLockedError``, ``DataFolderError``; an interrupt while waiting stops it again.
    """
    folder = data_dir.absolute()
    owner = read_owner(folder)
    if owner is not None and owner.alive:
        raise locked_error(owner, folder)
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
        return _follow(process, lines, folder=folder, wait=wait)


def _follow(process: subprocess.Popen[bytes], lines: IO[str], *, folder: Path, wait: str) -> int:
    owner = _wait_for_api(process, lines, folder=folder)
    if owner is None:
        _relay(lines)
        return process.wait()
    late = wait == "generation" and not _wait_for_generation(process, lines, url=owner.url)
    _relay(lines)
    click.echo(f"process {process.pid}, API {owner.url}; stop it with `anchorage --data-dir {folder} up --stop`")
    if late:
        note("generation is not ready yet; until then answers are extractive")
    return ExitCode.PARTLY_FAILED if late else ExitCode.OK


def _wait_for_api(process: subprocess.Popen[bytes], lines: IO[str], *, folder: Path) -> Owner | None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        _relay(lines)
        if process.poll() is not None:
            return None
        owner = read_owner(folder)
        if owner is not None and owner.pid == process.pid and _readiness(owner.url) is not None:
            return owner
        time.sleep(_POLL)
    raise StartError(f"the API did not answer within {START_SECONDS:.0f} s; see {folder / 'logs'}")


def _wait_for_generation(process: subprocess.Popen[bytes], lines: IO[str], *, url: str) -> bool:
    deadline = time.monotonic() + GENERATION_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        _relay(lines)
        generation = ((_readiness(url) or {}).get("dependencies") or {}).get("generation") or {}
        if generation.get("status") in {"ready", "skipped"}:
            return True
        time.sleep(5 * _POLL)
    return False


def _readiness(url: str) -> dict[str, Any] | None:
    """Return the answer of a service that takes requests, ``None`` otherwise."""
    try:
        response = httpx.get(f"{url}/readyz", timeout=3.0, trust_env=False)
        document = response.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    return document if response.is_success and isinstance(document, dict) else None


def _relay(lines: IO[str]) -> None:
    for line in lines:
        note(line.rstrip("\n"))


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
