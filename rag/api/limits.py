"""What the REST interface accepts, and what it assumes where a request says nothing."""

from __future__ import annotations

from dataclasses import dataclass

from rag.core.types import Mode

MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Defaults and limits; sizes in bytes, times in seconds.

    ``max_upload`` bounds a file and, with a little room for the framing, the whole request that carries it.
    """

    max_upload: int = 100 * MEBIBYTE
    max_json: int = 2 * MEBIBYTE
    mode: Mode = Mode.HYBRID
    limit: int = 10
    answer_hits: int = 5
    deadline: float = 5.0
    answer_deadline: float = 30.0
    max_deadline: float = 120.0
    stalled_after: float = 30.0
