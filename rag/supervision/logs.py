"""Log files of the children: one each, the one before kept."""

from __future__ import annotations

import os
from pathlib import Path

from rag.core.errors import DataFolderError

_TAIL_BYTES = 16_384


def rotate(path: Path) -> Path:
    """Put the last run's log aside as ``<name>.log.1`` and return ``path``. Raises ``DataFolderError``."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.replace(path.with_name(path.name + ".1"))
    except OSError as error:
        raise DataFolderError(f"the log {path} cannot be written: {error.strerror}") from error
    return path


def tail(path: Path, *, lines: int = 15) -> list[str]:
    """Return the last lines of a log; none where there is no log."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-lines:]
