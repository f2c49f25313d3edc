"""What goes to the terminal: one JSON document, or text; progress on standard error where a person waits."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

import click

PATIENCE = 2.0
"""Seconds before progress is written to something that is no terminal."""

_REPEAT = 10.0


def print_json(document: Any) -> None:
    """Print ``document`` as the one JSON document of this command."""
    click.echo(json.dumps(document, ensure_ascii=False, indent=2, default=str))


def note(message: str) -> None:
    """Say something beside the result, on standard error."""
    click.echo(message, err=True)


def terminal_columns() -> int:
    """Width of the terminal, within reason."""
    return max(40, min(shutil.get_terminal_size((100, 24)).columns, 160))


class Progress:
    """A progress line on standard error: redrawn on a terminal; elsewhere a plain line every ten seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, terminal: bool | None = None) -> None:
        self._clock = clock
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._next = clock() + PATIENCE
        self._drawn = False

    def show(self, message: str) -> None:
        """Replace the line."""
        if self._terminal:
            click.echo(f"\r\x1b[K{message}", nl=False, err=True)
            self._drawn = True
        elif self._clock() >= self._next:
            self._next = self._clock() + _REPEAT
            note(message)

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._drawn:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._drawn = False
