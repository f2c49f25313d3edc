"""The queue as the API shows it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from rag.catalog.database import Database
from rag.catalog.rows import Row
from rag.core.catalog import JobView

_JOBS = """
SELECT * FROM (
    SELECT j.id, j.task_name, j.status::text AS status, j.args, j.attempts, j.scheduled_at,
        (SELECT max(e.at) FROM procrastinate_events e WHERE e.job_id = j.id AND e.type = 'started') AS started_at,
        j.status = 'doing' AND (w.id IS NULL OR w.last_heartbeat < now() - make_interval(secs => %(stuck_after)s))
            AS stuck
    FROM procrastinate_jobs j LEFT JOIN procrastinate_workers w ON w.id = j.worker_id
) jobs WHERE stuck OR NOT %(only_stuck)s::boolean ORDER BY id DESC LIMIT %(limit)s
"""
_COUNTS = "SELECT status::text AS status, count(*) AS jobs FROM procrastinate_jobs GROUP BY status"
_OLDEST = """
SELECT extract(epoch FROM now() - min(coalesce(j.scheduled_at, e.at)))::float8 AS age FROM procrastinate_jobs j
JOIN procrastinate_events e ON e.job_id = j.id AND e.type = 'deferred'
WHERE j.status = 'todo' AND j.task_name <> 'promote_document' AND (j.scheduled_at IS NULL OR j.scheduled_at <= now())
"""


class Jobs:
    """Reads the queue."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def jobs(self, *, stuck_after: float, only_stuck: bool = False, limit: int = 100) -> list[JobView]:
        """Newest first. Stuck: it says running, but its worker gave no sign for ``stuck_after`` seconds."""
        arguments = {"stuck_after": stuck_after, "only_stuck": only_stuck, "limit": limit}
        return [_view(row) for row in await self._database.rows(_JOBS, arguments)]

    async def job_counts(self) -> Mapping[str, int]:
        """Jobs by status: ``todo``, ``doing``, ``failed`` …; succeeded ones are not kept."""
        return {row["status"]: row["jobs"] for row in await self._database.rows(_COUNTS)}

    async def oldest_job_age(self) -> float:
        """Seconds that the oldest job which could run has waited, promotions left out; 0.0 when none does."""
        row = await self._database.row(_OLDEST)
        return max(0.0, row["age"]) if row and row["age"] is not None else 0.0


def _view(row: Row) -> JobView:
    return JobView(
        id=row["id"],
        task=row["task_name"],
        status=row["status"],
        document=_document(row["args"]),
        attempts=row["attempts"],
        scheduled_at=row["scheduled_at"],
        started_at=row["started_at"],
        stuck=row["stuck"],
    )


def _document(arguments: Mapping[str, Any]) -> UUID | None:
    with suppress(ValueError, KeyError):
        return UUID(arguments["document"])
    return None
