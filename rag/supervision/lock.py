"""The lock that lets one supervisor at a time own a data folder.

The kernel holds it for an open file, which the supervisor shares with its guardian: it is free again only
when both are gone, and so nothing that the guardian still stops is met by the next supervisor.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rag.core.errors import DataFolderError, DataFolderLockedError

_POLL = 0.05
_ENDED = frozenset("ZXx")
"""States in ``/proc/<pid>/stat`` (proc(5)): zombie, dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who owns a data folder: its process id, the address of the API, and why generation is not to be had.

    ``no_generation`` is empty while vLLM runs, is being started, or is no business of the owner.
    """

    pid: int
    url: str
    no_generation: str = ""
    started_at: float = field(default_factory=time.time, compare=False)

    @property
    def alive(self) -> bool:
        """Whether the process still runs; one that was killed and is not collected yet does not."""
        return is_running(self.pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLock:
    """A held lock; ``descriptor`` may be inherited by a process that must keep it held."""

    path: Path
    descriptor: int

    def record(self, owner: Owner) -> None:
        """Write down who owns the folder, for whoever finds it locked."""
        size = os.fstat(self.descriptor).st_size
        # One write, blanks over the rest: whoever reads meanwhile never sees half of it.
        os.pwrite(self.descriptor, (json.dumps(asdict(owner)) + "\n").encode().ljust(size), 0)


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    state = stat.rpartition(")")[2].split()[0]
    return state not in _ENDED


def lock_path(data_dir: Path) -> Path:
    """Where the lock file of a data folder lies."""
    return data_dir / "run" / "up.lock"


def make_folder(data_dir: Path) -> None:
    """Make the data folder, private to this account; an existing one is kept. Raises ``DataFolderError``."""
    try:
        if not data_dir.is_dir():
            data_dir.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise _unwritable(data_dir, error) from error


def _unwritable(data_dir: Path, error: OSError) -> DataFolderError:
    return DataFolderError(f"the data folder {data_dir} cannot be written: {error.strerror}")


@contextmanager
def hold_folder(data_dir: Path, *, patience: float = 20.0) -> Iterator[FolderLock]:
    """Make the data folder and own it.

    Raises ``DataFolderError`` when it cannot be written, and ``DataFolderLockedError`` naming the owner's
    process and address. An owner that was killed leaves its guardian to clean up: that is waited for, at most
    ``patience`` seconds.
    """
    make_folder(data_dir)
    path = lock_path(data_dir)
    try:
        path.parent.mkdir(exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unwritable(data_dir, error) from error
    try:
        _lock(descriptor, path, until=time.monotonic() + patience)
        yield FolderLock(path=path, descriptor=descriptor)
    finally:
        os.close(descriptor)


def read_owner(data_dir: Path) -> Owner | None:
    """Return who owns the data folder now; ``None`` when nobody does."""
    path = lock_path(data_dir)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(path)
    finally:
        os.close(descriptor)
    return None


def locked_error(owner: Owner, data_dir: Path) -> DataFolderLockedError:
    """Return the error that names who owns the data folder."""
    return DataFolderLockedError(
        f"a service already runs on the data folder {data_dir}: process {owner.pid},"
        f" {owner.url or 'no address yet'}; stop it with `anchorage --data-dir {data_dir} up --stop`"
    )


def _lock(descriptor: int, path: Path, *, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _read(path)
            if owner.alive or time.monotonic() >= until:
                raise locked_error(owner, path.parent.parent) from None
            time.sleep(_POLL)
        else:
            return


def _read(path: Path) -> Owner:
    document: Mapping[str, Any] = {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        document = {}
    return Owner(
        pid=int(document.get("pid", 0)),
        url=str(document.get("url", "")),
        no_generation=str(document.get("no_generation", "")),
        started_at=float(document.get("started_at", 0.0)),
    )
