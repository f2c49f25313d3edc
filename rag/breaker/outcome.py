"""What a call says of the backend."""

from __future__ import annotations

from enum import Enum, auto


class Outcome(Enum):
    """``NEUTRAL`` says nothing: the request was at fault, the caller left, or had too little time."""

    SUCCESS = auto()
    FAILURE = auto()
    NEUTRAL = auto()
