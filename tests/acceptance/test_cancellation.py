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
ATTEMPTS = 5


async def written(service: Service) -> float:
    """Tokens that vLLM has written so far."""
    return (await asyncio.to_thread(service.vllm_metrics))["vllm:generation_tokens_total"]


async def idle(service: Service) -> None:
    """Wait until vLLM works on nothing."""
    async with asyncio.timeout(ABORT_SECONDS):
        while (await asyncio.to_thread(service.vllm_metrics))["vllm:num_requests_running"]:  # noqa: ASYNC110  it asks another process
            await asyncio.sleep(0.02)


async def ask(http: httpx.AsyncClient, *, stream: bool) -> None:
    """Ask, and read what comes until its end; it must be the chat model that answers."""
    async with http.stream("POST", ROUTE, json={**LONG, "stream": stream}) as response:
        body = await response.aread()
    assert response.status_code == 200, body
    assert b'"degraded":[]' in body, body


async def leave_once_begun(service: Service, http: httpx.AsyncClient, *, stream: bool) -> bool:
    """Ask, and leave when vLLM has begun to write; false where it had finished before that was seen."""
    before = await written(service)
    asking = asyncio.create_task(ask(http, stream=stream))
    while await written(service) == before and not asking.done():  # noqa: ASYNC110  it asks another process
        await asyncio.sleep(0.02)
    if asking.done():
        await asking
        return False
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    return True


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
async def test_generation_ends_within_two_seconds_of_its_client_leaving(service: Service, stream: bool) -> None:
    async with httpx.AsyncClient(base_url=service.url, timeout=150, trust_env=False) as http:
        before = await written(service)
        await ask(http, stream=stream)
        complete = await written(service) - before
        for _ in range(ATTEMPTS):
            before = await written(service)
            if await leave_once_begun(service, http, stream=stream):
                break
        else:
            pytest.fail("every generation had ended before it was seen to begin")

        await idle(service)

    assert await written(service) - before < 0.7 * complete
