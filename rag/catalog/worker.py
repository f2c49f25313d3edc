"""The running side of the queue: a procrastinate worker that outlives outages and stops in order."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
import psycopg_pool
from procrastinate import App, BaseRetryStrategy, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job
from procrastinate.worker import Worker

from rag.core.errors import AnchorageError

_logger = logging.getLogger(__name__)

QUEUE = "anchorage"
INGEST = "ingest_document"
SWEEP = "sweep"
ALIGN = "align_metadata"
PROMOTIONS = "anchorage_promotions"
PROMOTE = "promote_document"

Handlers: TypeAlias = Mapping[str, Callable[..., Awaitable[None]]]

_FIRST_PAUSE = 2.0
_LONGEST_PAUSE = 300.0
_RESTART_SECONDS = 1.0
_POLL_SECONDS = 1.0
"""A job that waited for its lock is announced to nobody when the lock is free."""


class _Again(BaseRetryStrategy):
    """Run what raised again, later and later; the catalog counts the attempts and ends them."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """At once after a stop of the worker; a failed sweep comes round by itself."""
        if isinstance(exception, asyncio.CancelledError):
            return RetryDecision(retry_in={"seconds": 0})
        if job.task_name == SWEEP:
            return None
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(job.attempts, 16))
        return RetryDecision(retry_in={"seconds": int(pause * random.uniform(1.0, 1.5))})  # noqa: S311  jitter


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """What a worker runs and how. ``maintain``, if any, is called every ``maintain_every`` seconds.

    The worker gives a sign every ``heartbeat`` seconds.
    """

    queue: str
    handlers: Handlers
    concurrency: int
    grace: float
    heartbeat: float
    maintain: Callable[[], Awaitable[None]] | None
    maintain_every: float


async def run_worker(
    pool: psycopg_pool.AsyncConnectionPool[Any], plan: WorkerPlan, *, stop_event: asyncio.Event
) -> None:
    """Run jobs until ``stop_event``; a worker that an outage ended is replaced."""
    async with asyncio.TaskGroup() as group:
        maintenance = group.create_task(_maintain(plan.maintain, plan.maintain_every)) if plan.maintain else None
        while not stop_event.is_set():
            await _run_once(pool, plan, stop_event)
            with suppress(TimeoutError):
                async with asyncio.timeout(_RESTART_SECONDS):
                    await stop_event.wait()
        if maintenance is not None:
            maintenance.cancel()


async def _run_once(pool: psycopg_pool.AsyncConnectionPool[Any], plan: WorkerPlan, stop_event: asyncio.Event) -> None:
    app = _app(plan)
    await app.open_async(pool)
    worker = Worker(
        app,
        queues=[plan.queue],
        concurrency=plan.concurrency,
        shutdown_graceful_timeout=plan.grace,
        fetch_job_polling_interval=_POLL_SECONDS,
        delete_jobs="successful",
        install_signal_handlers=False,
        update_heartbeat_interval=plan.heartbeat,
    )
    running = asyncio.create_task(worker.run())  # type: ignore[no-untyped-call]
    stopping = asyncio.create_task(stop_event.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        worker.stop()  # type: ignore[no-untyped-call]
        await running
    except (ConnectorException, psycopg.Error, OSError):
        _logger.exception("the worker lost the queue", extra={"action": "worker_restart"})
    finally:
        stopping.cancel()
        if not running.done():
            running.cancel()
            with suppress(asyncio.CancelledError, ConnectorException):
                await running


def _app(plan: WorkerPlan) -> App:
    app = App(connector=PsycopgConnector())
    for name, handler in plan.handlers.items():
        app.task(name=name, queue=plan.queue, retry=_Again())(handler)
    return app


async def _maintain(maintain: Callable[[], Awaitable[None]], every: float) -> None:
    while True:
        try:
            await maintain()
        except AnchorageError:
            _logger.exception("the queue's upkeep failed", extra={"action": "queue_upkeep_failed"})
        await asyncio.sleep(every)
