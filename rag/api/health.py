"""Routes for supervisors and monitors."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rag.api.deps import json_response, services_of
from rag.api.readiness import check_readiness
from rag.api.shutdown import Shutdown
from rag.core.errors import AnchorageError
from rag.services import Services
from rag.telemetry import CONTENT_TYPE, JOB_OLDEST_AGE_SECONDS, JOBS, render

router = APIRouter(tags=["health"])

SCRAPE_SECONDS = 1.0

_ALWAYS_SHOWN = ("todo", "doing", "failed")


@router.get("/livez")
async def livez() -> Response:
    """Alive: the event loop turns. Asks nothing of anything else."""
    return PlainTextResponse("ok\n")


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Ready or degraded (200), or unavailable (503), and each dependency by itself."""
    shutdown: Shutdown = request.app.state.shutdown
    readiness = await check_readiness(services_of(request), draining=shutdown.draining)
    return json_response(readiness, 503 if readiness.status == "unavailable" else 200)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """All metrics in the text format of Prometheus; the queue's are left out while the catalog is down."""
    try:
        async with asyncio.timeout(SCRAPE_SECONDS):
            await _refresh_jobs(services_of(request))
    except (AnchorageError, TimeoutError):
        JOBS.clear()
    return Response(render(), media_type=CONTENT_TYPE)


async def _refresh_jobs(services: Services) -> None:
    counts = await services.catalog.job_counts()
    age = await services.catalog.oldest_job_age()
    JOBS.clear()
    for state, count in (dict.fromkeys(_ALWAYS_SHOWN, 0) | dict(counts)).items():
        JOBS.labels(state).set(count)
    JOB_OLDEST_AGE_SECONDS.set(age)
