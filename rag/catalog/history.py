"""The history of a document: one entry for each attempt at it, bounded to the newest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from psycopg.types.json import Jsonb

from rag.catalog.rows import Row

KEPT_ATTEMPTS = 20
WORKER_ENDED = "worker_ended"

Entry: TypeAlias = Mapping[str, Any]


def entry(
    attempt: int,
    outcome: str,
    *,
    code: str | None = None,
    message: str | None = None,
    parsers: Sequence[Mapping[str, Any]] = (),
    promotion: bool = False,
) -> dict[str, Any]:
    """One attempt as it ended now."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {
        "attempt": attempt, "outcome": outcome, "code": code, "message": message, "at": moment,
        "parsers": list(parsers), "promotion": promotion,
    }  # fmt: skip


def lost_entry(row: Row, *, promotion: bool) -> dict[str, Any]:
    """The attempt of a claimed row whose worker ended without a word; when, is known by its successor only."""
    since = row["claimed_at"]
    begun = f" that began at {since.isoformat(timespec='seconds')}" if since else ""
    message = f"the worker ended during the attempt{begun}"
    return entry(row["attempt"], "lost", code=WORKER_ENDED, message=message, promotion=promotion)


def with_entry(kept: Sequence[Entry], *entries: Entry) -> Jsonb:
    """The history with further entries."""
    return Jsonb([*kept, *entries][-KEPT_ATTEMPTS:])
