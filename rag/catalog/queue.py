"""Jobs: deferred in the caller's transaction, run by a worker, retried when a worker dies.

One job a document runs at a time (its lock). Whoever changes a document locks its row *before* looking
for a waiting job: a waiting job claims that row later, so it sees the change; a running one does not
count, and another is deferred. So no change is left without a job.

A job's priority is minus its turn. A tenant's documents have turns one after another, its first one that of the
document that is next: so tenants are served in turn, however much one of them has waiting, and none starves.
Promotions have a queue of their own, and turns below all others: one that waits keeps no upload of its document
back.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.utils import utcnow

from rag.catalog.database import Connection, Database
from rag.catalog.errors import catalog_errors
from rag.catalog.worker import (
    ALIGN,
    INGEST,
    PROMOTE,
    PROMOTIONS,
    QUEUE,
    SWEEP,
    Handlers,
    WorkerPlan,
    run_worker,
)

_MOST_REQUEUED = 1000
_KEPT_HOURS = 72
_LONGEST_UPKEEP = 30.0
_LONGEST_HEARTBEAT = 5.0

_FIRST_TURNS = {INGEST: 0, PROMOTE: -(2**30)}

_JOBLESS = """
SELECT d.id, d.tenant FROM documents d
WHERE d.state IN ('queued', 'running') AND d.updated_at < now() - make_interval(secs => %(after)s)
  AND NOT EXISTS (SELECT FROM procrastinate_jobs j
    WHERE j.lock = d.id::text AND j.status = 'todo' AND j.task_name = 'ingest_document')
  AND NOT EXISTS (SELECT FROM procrastinate_jobs j
    WHERE j.lock = d.id::text AND j.status = 'doing' AND j.task_name = 'ingest_document')
ORDER BY d.updated_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
"""
_UNPROMOTED = """
SELECT d.id, d.tenant FROM documents d
WHERE d.state = 'published' AND d.promotion_at < now() - make_interval(secs => %(after)s)
  AND NOT EXISTS (SELECT FROM procrastinate_jobs j
    WHERE j.lock = d.id::text AND j.status = 'todo' AND j.task_name = 'promote_document')
  AND NOT EXISTS (SELECT FROM procrastinate_jobs j
    WHERE j.lock = d.id::text AND j.status = 'doing' AND j.task_name = 'promote_document')
ORDER BY d.promotion_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
"""
_WAITS = """
WITH hurried AS (
    UPDATE procrastinate_jobs SET scheduled_at = %(at)s::timestamptz WHERE lock = %(lock)s AND task_name = %(task)s
        AND status = 'todo' AND scheduled_at > coalesce(%(at)s::timestamptz, now())
) SELECT 1 FROM procrastinate_jobs WHERE lock = %(lock)s AND task_name = %(task)s AND status = 'todo' LIMIT 1
"""
_TURN = """
SELECT least(
    (SELECT max(priority) FROM procrastinate_jobs WHERE status = 'todo' AND task_name = %(task)s
        AND (scheduled_at IS NULL OR scheduled_at <= now())),
    (SELECT min(priority) FROM procrastinate_jobs WHERE status = 'todo' AND task_name = %(task)s
        AND args ->> 'tenant' = %(tenant)s),
    %(first)s
) - 1 AS priority
"""


class Queue:
    """The queue in the catalog's database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._app = App(connector=PsycopgConnector())

    async def open(self) -> None:
        """Share the catalog's pool."""
        await self._app.open_async(self._database.pool)

    async def defer_ingest(self, connection: Connection, *, tenant: str, document: UUID) -> None:
        """Within the transaction that holds the document's row: make sure that a job will look at it soon."""
        if await _waits(connection, INGEST, str(document)):
            return
        await self._defer(connection, INGEST, QUEUE, tenant=tenant, document=document)

    async def defer_promotion(
        self, connection: Connection, *, tenant: str, document: UUID, at: datetime | None = None
    ) -> None:
        """Within the transaction that holds the document's row: have it parsed again, not before ``at``."""
        if await _waits(connection, PROMOTE, str(document), at=at):
            return
        await self._defer(connection, PROMOTE, PROMOTIONS, tenant=tenant, document=document, at=at)

    async def _defer(
        self,
        connection: Connection,
        task: str,
        queue: str,
        *,
        tenant: str,
        document: UUID,
        at: datetime | None = None,
    ) -> None:
        arguments = {"task": task, "tenant": tenant, "first": _FIRST_TURNS[task]}
        turn = await (await connection.execute(_TURN, arguments)).fetchone()
        priority = turn["priority"] if turn else _FIRST_TURNS[task]
        job = self._app.configure_task(
            task, queue=queue, lock=str(document), priority=priority, schedule_at=at, connection=connection
        )
        await job.defer_async(tenant=tenant, document=str(document))

    async def defer_alignment(self, connection: Connection, *, tenant: str, document: UUID) -> None:
        """Within the transaction that changes a document's metadata: have it written to the store."""
        lock = f"{ALIGN} {document}"
        job = self._app.configure_task(ALIGN, queue=QUEUE, lock=lock, connection=connection)
        await job.defer_async(tenant=tenant, document=str(document))

    async def defer_sweep(self, connection: Connection) -> None:
        """Within the caller's transaction: have the garbage removed soon."""
        if not await _waits(connection, SWEEP, SWEEP):
            await self._app.configure_task(SWEEP, queue=QUEUE, lock=SWEEP, connection=connection).defer_async()

    async def run(
        self,
        handlers: Handlers,
        *,
        concurrency: int,
        promotions: int = 1,
        stop_event: asyncio.Event,
        grace: float = 30.0,
        stalled_after: float = 60.0,
        upkeep_every: float | None = None,
    ) -> None:
        """Run jobs until ``stop_event``: then take no more, wait ``grace`` seconds, cancel what is left.

        ``handlers`` by task name: ``ingest_document(tenant=…, document=…)``, ``promote_document`` and
        ``align_metadata`` alike, and ``sweep()``. Promotions run beside the others, ``promotions`` at a time, so
        that these never wait for one. What raises, unless it is a sweep, is run again with a growing pause.
        Outages of the database are waited out.
        Every ``upkeep_every`` seconds, by default ``stalled_after`` and at most 30, stalled jobs are retried and a
        sweep is deferred.
        """

        async def upkeep() -> None:
            await self.retry_stalled(stalled_after)
            await self._forget_finished()
            async with self._database.transaction() as connection:
                await self.defer_sweep(connection)

        plan = WorkerPlan(
            queue=QUEUE,
            handlers={name: handler for name, handler in handlers.items() if name != PROMOTE},
            concurrency=concurrency,
            grace=grace,
            heartbeat=min(_LONGEST_HEARTBEAT, stalled_after / 4),
            maintain=upkeep,
            maintain_every=min(_LONGEST_UPKEEP, stalled_after) if upkeep_every is None else upkeep_every,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(run_worker(self._database.pool, plan, stop_event=stop_event))
            if PROMOTE in handlers:
                background = replace(
                    plan,
                    queue=PROMOTIONS,
                    handlers={PROMOTE: handlers[PROMOTE]},
                    concurrency=promotions,
                    maintain=None,
                )
                group.create_task(run_worker(self._database.pool, background, stop_event=stop_event))

    async def retry_stalled(self, after: float) -> int:
        """Jobs whose worker gave no sign for ``after`` seconds wait again; gives their number.

        So do unfinished documents, and those to promote, that have no job at all and stayed untouched as long.
        """
        with catalog_errors():
            stalled = [
                job.id
                for job in await self._app.job_manager.get_stalled_jobs(seconds_since_heartbeat=after)
                if job.id is not None
            ]
        retried = [await self._retry(job) for job in stalled]
        return sum(retried) + await self._requeue_jobless(after)

    async def _retry(self, job: int) -> bool:
        try:
            await self._app.job_manager.retry_job_by_id_async(job, retry_at=utcnow())
        except ConnectorException:  # it ended, or another worker retried it first
            return False
        return True

    async def _requeue_jobless(self, after: float) -> int:
        async with self._database.transaction() as connection:
            cursor = await connection.execute(_JOBLESS, {"after": after, "limit": _MOST_REQUEUED})
            lost = await cursor.fetchall()
            for row in lost:
                await self.defer_ingest(connection, tenant=row["tenant"], document=row["id"])
            cursor = await connection.execute(_UNPROMOTED, {"after": after, "limit": _MOST_REQUEUED})
            unpromoted = await cursor.fetchall()
            for row in unpromoted:
                await self.defer_promotion(connection, tenant=row["tenant"], document=row["id"])
        return len(lost) + len(unpromoted)

    async def _forget_finished(self) -> None:
        with catalog_errors():
            await self._app.job_manager.delete_old_jobs(
                nb_hours=_KEPT_HOURS, include_failed=True, include_cancelled=True, include_aborted=True
            )


async def _waits(connection: Connection, task: str, lock: str, *, at: datetime | None = None) -> bool:
    """Whether a job waits; one that would wait longer than until ``at``, or now, is brought forward."""
    cursor = await connection.execute(_WAITS, {"task": task, "lock": lock, "at": at})
    return await cursor.fetchone() is not None
