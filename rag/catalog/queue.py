"""Jobs: deferred in the caller's transaction, run by a worker, retried when a worker dies.

One job a document runs at a time (its lock). Whoever changes a document locks its row *before* looking
for a waiting job: a waiting job claims that row later, so it sees the change; a running one does not
count, and another is deferred. So no change is left without a job.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.utils import utcnow

from rag.catalog.database import Connection, Database
from rag.catalog.errors import catalog_errors
from rag.catalog.worker import ALIGN, INGEST, QUEUE, SWEEP, Handlers, WorkerPlan, run_worker

_MOST_REQUEUED = 1000
_KEPT_HOURS = 72

_JOBLESS = """
SELECT d.id, d.tenant FROM documents d
WHERE d.state IN ('queued', 'running') AND d.updated_at < now() - make_interval(secs => %(after)s)
  AND NOT EXISTS (SELECT FROM procrastinate_jobs j WHERE j.lock = d.id::text AND j.status = 'todo')
  AND NOT EXISTS (SELECT FROM procrastinate_jobs j WHERE j.lock = d.id::text AND j.status = 'doing')
ORDER BY d.updated_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
"""
_WAITS = (
    "SELECT 1 FROM procrastinate_jobs WHERE lock = %s AND status = 'todo' "
    "AND (scheduled_at IS NULL OR scheduled_at <= now()) LIMIT 1"
)
_RELEASE = (
    "UPDATE documents SET state = 'queued', stage = NULL, tries = greatest(tries - 1, 0), updated_at = now() "
    "WHERE tenant = %s AND id = %s AND state = 'running'"
)


class Queue:
    """The queue in the catalog's database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._app = App(connector=PsycopgConnector())

    async def open(self) -> None:
        """Share the catalog's pool."""
        await self._app.open_async(self._database.pool)

    async def defer_ingest(self, connection: Connection, *, tenant: str, document: UUID) -> None:
        """Within the transaction that holds the document's row: make sure that a job will look at it."""
        if await _waits(connection, str(document)):
            return
        job = self._app.configure_task(INGEST, queue=QUEUE, lock=str(document), connection=connection)
        await job.defer_async(tenant=tenant, document=str(document))

    async def defer_alignment(self, connection: Connection, *, tenant: str, document: UUID) -> None:
        """Within the transaction that changes a document's metadata: have it written to the store."""
        lock = f"{ALIGN} {document}"
        job = self._app.configure_task(ALIGN, queue=QUEUE, lock=lock, connection=connection)
        await job.defer_async(tenant=tenant, document=str(document))

    async def defer_sweep(self, connection: Connection) -> None:
        """Within the caller's transaction: have the garbage removed soon."""
        if not await _waits(connection, SWEEP):
            await self._app.configure_task(SWEEP, queue=QUEUE, lock=SWEEP, connection=connection).defer_async()

    async def run(
        self,
        handlers: Handlers,
        *,
        concurrency: int,
        stop_event: asyncio.Event,
        grace: float = 30.0,
        stalled_after: float = 60.0,
        upkeep_every: float = 30.0,
    ) -> None:
        """Run jobs until ``stop_event``: then take no more, wait ``grace`` seconds, cancel what is left.

        ``handlers`` by task name: ``ingest_document(tenant=…, document=…)``, ``align_metadata(tenant=…,
        document=…)`` and ``sweep()``. What raises, unless it is a sweep, is run again with a growing pause; an
        ``UpstreamError`` (an outage) does not count as a document's try. Outages of the database are waited out.
        Every ``upkeep_every`` seconds stalled jobs are retried and a sweep is deferred.
        """

        async def upkeep() -> None:
            await self.retry_stalled(stalled_after)
            await self._forget_finished()
            async with self._database.transaction() as connection:
                await self.defer_sweep(connection)

        plan = WorkerPlan(
            handlers=handlers,
            concurrency=concurrency,
            grace=grace,
            maintain=upkeep,
            maintain_every=upkeep_every,
            release=self._release,
        )
        await run_worker(self._database.pool, plan, stop_event=stop_event)

    async def retry_stalled(self, after: float) -> int:
        """Jobs whose worker gave no sign for ``after`` seconds wait again; gives their number.

        So do unfinished documents that have no job at all and stayed untouched as long.
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
        return len(lost)

    async def _forget_finished(self) -> None:
        with catalog_errors():
            await self._app.job_manager.delete_old_jobs(
                nb_hours=_KEPT_HOURS, include_failed=True, include_cancelled=True, include_aborted=True
            )

    async def _release(self, tenant: str, document: str) -> None:
        async with self._database.connection() as connection:
            await connection.execute(_RELEASE, (tenant, UUID(document)))


async def _waits(connection: Connection, lock: str) -> bool:
    return await (await connection.execute(_WAITS, (lock,))).fetchone() is not None
