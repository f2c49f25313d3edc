"""The route that shows the queue."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from rag.api.deps import json_response, limits_of, services_of
from rag.api.views import job_json

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("")
async def list_jobs(
    request: Request, *, stuck: bool = False, limit: Annotated[int, Query(ge=1, le=500)] = 100
) -> Response:
    """Jobs of the queue, newest first, and how many there are by state; ``stuck`` keeps those whose worker died."""
    catalog = services_of(request).catalog
    jobs = await catalog.jobs(stuck_after=limits_of(request).stalled_after, only_stuck=stuck, limit=limit)
    counts = await catalog.job_counts()
    return json_response({"jobs": [job_json(job) for job in jobs], "counts": dict(counts)})
