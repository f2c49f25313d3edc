"""Folders that one process owns at a time, and sockets at an address that stays the same."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from rag.core.errors import DataFolderError, StorageFullError

LONGEST_SOCKET_PATH = 107
"""Bytes of a path that the kernel takes as the address of a socket."""

_PLAIN = re.compile(r"[A-Za-z0-9_./-]+", re.ASCII)


def hold(path: Path) -> IO[str] | None:
    """Lock a file for this process; ``None`` while another one holds it.

    The kernel lets go of it whatever way the process ends, once every process that inherited the file has.
    """
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def is_short(path: Path) -> bool:
    """Whether a socket can lie there."""
    return len(os.fsencode(path)) <= LONGEST_SOCKET_PATH


def is_plain(path: Path) -> bool:
    """Whether every client takes the path as it is, those that read addresses as URLs too."""
    return _PLAIN.fullmatch(str(path)) is not None


def private_folder(note: Path, *, prefix: str, owners: Collection[int]) -> Path:
    """A private folder with a short path, the same one each time, so that clients find a new owner.

    The folder for temporary files is everyone's: what lies there under the noted name must belong to one of
    ``owners``, user ids. Only whoever holds the folder of the ``note`` may call this.
    """
    folder = noted_folder(note, owners=owners, make=True)
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        note.write_text(str(folder), encoding="utf-8")
    return folder


def noted_folder(note: Path, *, owners: Collection[int], make: bool = False) -> Path | None:
    """The folder that :func:`private_folder` noted, where it exists and belongs to one of ``owners``."""
    with contextlib.suppress(OSError):
        folder = Path(note.read_text(encoding="utf-8"))
        if make:
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid in owners:
            return folder
    return None


@contextlib.contextmanager
def folder_errors(folder: Path) -> Iterator[None]:
    """Raise ``StorageFullError`` or ``DataFolderError`` for what keeps a folder from being used."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(f"no space left for {folder}") from error
        raise DataFolderError(f"{folder} cannot be used as the data folder: {error.strerror}") from error
