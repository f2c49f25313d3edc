"""The temporary folders of parser processes: wiped, measured, and removed with whoever still lives in them."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import psutil

FOLDER_PREFIX = "anchorage-parse-"
_CLOCK_SECONDS = 2.0
"""How far the clocks of processes and files may be apart."""


def wipe(folder: Path) -> None:
    """Remove everything in the folder, not what links in it point to."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def is_larger(folder: Path, *, size: int, entries: int) -> bool:
    """Whether more than ``size`` bytes or ``entries`` files are in it; looks no further than that."""
    found = used = 0
    pending = [folder]
    while pending:
        with suppress(OSError), os.scandir(pending.pop()) as listing:
            for entry in listing:
                found += 1
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                else:
                    used += entry.stat(follow_symlinks=False).st_size
                if used > size or found > entries:
                    return True
    return False


def evict(folder: Path) -> None:
    """Kill the processes that were told to use this folder: those whose parser process ended before they were seen."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get("TMPDIR") == str(folder):
                process.kill()


def remove_leftovers(temporary: Path) -> None:
    """Remove the folders of owners that were killed: no process has their number, or one that began later."""
    for folder in temporary.glob(f"{FOLDER_PREFIX}*-*"):
        owner = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        with suppress(FileNotFoundError):
            if owner.isdigit() and not _owns(int(owner), folder):
                evict(folder)
                shutil.rmtree(folder, ignore_errors=True)


def _owns(pid: int, folder: Path) -> bool:
    touched = folder.stat().st_mtime
    try:
        return psutil.Process(pid).create_time() <= touched + _CLOCK_SECONDS
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
