"""The log of a process, bounded: two files at most, and the last lines in memory for error messages."""

from __future__ import annotations

from pathlib import Path

LOG_BYTES = 4 << 20
_TAIL_BYTES = 4096


class BoundedLog:
    """Appends to ``path``; at ``limit`` bytes it becomes ``<name>.1`` in place of the one before."""

    def __init__(self, path: Path, *, limit: int = LOG_BYTES) -> None:
        self.path = path
        self._limit = limit
        self._last = b""

    def append(self, output: bytes) -> None:
        """Write it at the end. Raises ``OSError``."""
        self._last = (self._last + output)[-_TAIL_BYTES:]
        if self.path.exists() and self.path.stat().st_size + len(output) > self._limit:
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
        with self.path.open("ab") as file:
            file.write(output[-self._limit :])

    def forget(self) -> None:
        """Begin anew with the last lines: another process writes from now on."""
        self._last = b""

    def tail(self, *, lines: int = 3) -> str:
        """The last lines in one; empty when nothing was written."""
        written = [line.strip() for line in self._last.decode(errors="replace").splitlines() if line.strip()]
        return " / ".join(written[-lines:])
