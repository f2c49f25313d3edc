"""Folders that appear whole or not at all, and the lock that lets one process at a time make them."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rag.core.errors import CapacityError, DataFolderError, StorageFullError

_POLL = 0.05


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as indented JSON."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_json(path: Path) -> Mapping[str, Any]:
    """Read a JSON object; an absent or damaged file reads as an empty one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def replace_json(path: Path, value: object) -> None:
    """Replace the file at ``path`` in one step, so that a reader sees the old or the new value."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        write_json(temporary, value)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_parent(path: Path) -> None:
    """Create the folder ``path``; raise DataFolderError when that is not allowed."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataFolderError(f"the models folder {path} cannot be created: {error.strerror}") from error


@contextmanager
def exclusive(path: Path, *, deadline: float) -> Iterator[None]:
    """Hold the lock file at ``path``; the kernel releases it when the process dies.

    Raises CapacityError when another process still holds it after ``deadline`` seconds and DataFolderError
    when the lock file cannot be written.
    """
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise DataFolderError(f"the models folder {path.parent} cannot be written: {error.strerror}") from error
    try:
        _wait_for_lock(handle, path, until=time.monotonic() + deadline)
        yield
    finally:
        os.close(handle)


def _wait_for_lock(handle: int, path: Path, *, until: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise CapacityError(f"another process is still preparing this model ({path})") from None
            time.sleep(_POLL)
        else:
            return


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``target`` that takes its name, synced to disk, when the block ends well.

    After an error nothing is left. Call it under the lock of ``target``: leftovers of a killed process are
    removed first. Raises StorageFullError when the disk is full.
    """
    remove_leftovers(target)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=_prefix(target)))
    try:
        yield temporary
        _settle(temporary)
        temporary.rename(target)
        _sync(target.parent)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if _is_disk_full(error):
            raise StorageFullError(f"the disk is full: {target.name} was not written") from error
        raise


def remove_leftovers(target: Path) -> None:
    """Remove the temporary folders that killed attempts at ``target`` left behind."""
    for leftover in target.parent.glob(f"{_prefix(target)}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def tree_size(folder: Path) -> int:
    """Return the bytes of all files under ``folder``."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _prefix(target: Path) -> str:
    return f".{target.name}.new-"


def _is_disk_full(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return True
    return "os error 28" in str(error)


def _settle(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        # Some writers leave files that only their owner can read.
        path.chmod(0o755 if path.is_dir() else 0o644)
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
