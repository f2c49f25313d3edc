"""The command ``anchorage``: a thin shell over a running service, and the commands that start one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the process with its exit code."""
    import sys

    from rag.cli.root import run

    sys.exit(run(sys.argv[1:] if arguments is None else arguments))
