"""A client that leaves takes its generation with it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import httpx
import pytest

from tests.acceptance.running import COLLECTION, Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROUTE = f"/v1/collections/{COLLECTION}/answer"
LONG = {"query": "List all rules.", "max_tokens": 1000, "temperature": 0}
ABORT_SECONDS = 2.0


async def figures(service: Service) -> tuple[float, float]:
    """Requests that vLLM works on, and tokens that it has written so far."""
    found = await asyncio.to_thread(service.vllm_metrics)
    return found["vllm:num_requests_running"], found["vllm:generation_tokens_total"]


async def running(service: Service, *, some: bool, seconds: float) -> None:
    """Wait until vLLM works on something, or on nothing."""
    async with asyncio.timeout(seconds):
        while bool((await figures(service))[0]) is not some:  # noqa: ASYNC110  it asks another process
            await asyncio.sleep(0.02)


async def ask(http: httpx.AsyncClient, *, stream: bool) -> None:
    """Ask, and read what comes until its end."""
    async with http.stream("POST", ROUTE, json={**LONG, "stream": stream}) as response:
        assert response.status_code == 200
        await response.aread()


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
async def test_generation_ends_within_two_seconds_of_its_client_leaving(service: Service, stream: bool) -> None:
    async with httpx.AsyncClient(base_url=service.url, timeout=150, trust_env=False) as http:
        before = (await figures(service))[1]
        await ask(http, stream=stream)
        complete = (await figures(service))[1] - before
        asking = asyncio.create_task(ask(http, stream=stream))
        await running(service, some=True, seconds=60)

        asking.cancel()

        with suppress(asyncio.CancelledError):
            await asking
        await running(service, some=False, seconds=ABORT_SECONDS)
    written = (await figures(service))[1] - before - complete
    assert written < 0.7 * complete
