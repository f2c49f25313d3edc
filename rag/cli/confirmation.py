"""Asking before something is deleted."""

from __future__ import annotations

import sys

import click


def confirmed(question: str) -> bool:
    """Ask; where nobody can answer this is a usage error that names ``--yes``."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody can be asked here: say --yes")
    return click.confirm(question, err=True)
