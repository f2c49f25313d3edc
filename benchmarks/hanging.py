"""Parsers that do not end by themselves, each in its own way; run in the child processes of ``bench hangs``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar, NoReturn

from rag.core.types import Block, ParsedDocument

_SLEEP = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
_FORKS = 5
_PIECE = 2**20


class Sleeper:
    """Waits for ever."""

    name: ClassVar[str] = "hanging"
    media_types: ClassVar[frozenset[str]] = frozenset()

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Never returns."""
        self._hang()

    def _hang(self) -> NoReturn:
        while True:
            time.sleep(3600)


class Spinner(Sleeper):
    """Computes for ever."""

    def _hang(self) -> NoReturn:
        while True:
            pass


class Deaf(Sleeper):
    """Ignores every request to end."""

    def _hang(self) -> NoReturn:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        super()._hang()


class Allocator(Sleeper):
    """Takes memory without end, and does not mind when it gets no more."""

    def _hang(self) -> NoReturn:
        kept = []
        while True:
            try:
                kept.append(b"x" * _PIECE)
            except MemoryError:
                time.sleep(0.1)


class Forker(Sleeper):
    """Starts processes that ignore SIGTERM."""

    def _hang(self) -> NoReturn:
        for _ in range(_FORKS):
            subprocess.Popen([sys.executable, "-c", _SLEEP])
        super()._hang()


class Runaway(Sleeper):
    """Starts processes that leave its session, and whose parent ends."""

    def _hang(self) -> NoReturn:
        script = f"import os; os.fork() and os._exit(0); os.setsid(); {_SLEEP}"
        for _ in range(_FORKS):
            subprocess.run([sys.executable, "-c", script], check=True)
        super()._hang()


class Flooder(Sleeper):
    """Writes to every output it was given."""

    def _hang(self) -> NoReturn:
        while True:
            os.write(1, b"x" * _PIECE)
            os.write(2, b"x" * _PIECE)


class Filler(Sleeper):
    """Fills its temporary folder."""

    def _hang(self) -> NoReturn:
        number = 0
        while True:
            Path(f"{number}.tmp").write_bytes(b"x" * _PIECE)
            number += 1


class Prompt(Sleeper):
    """Does not hang: shows that the processes are warm."""

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """One character."""
        return ParsedDocument(text="x", blocks=(Block(start=0, end=1),))
