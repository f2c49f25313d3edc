"""Where the Python lies that runs vLLM: an environment of its own."""

from __future__ import annotations

import sys
from pathlib import Path


def find_interpreter(python: Path, *, environment: Path = Path(sys.prefix)) -> Path | None:
    """Return the interpreter of vLLM's environment, absolute; ``None`` where there is none.

    A relative path holds from the working folder, then from the folder in which our own ``environment`` lies.
    """
    places = (python.expanduser(), environment.parent / python)
    return next((place.absolute() for place in places if place.is_file()), None)
