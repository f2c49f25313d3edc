"""What happens around every request, over a small application."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import PlainTextResponse

from rag.api.middleware import RequestMiddleware
from rag.telemetry import REGISTRY


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.add_middleware(RequestMiddleware)

    @app.get("/things/{thing}")
    async def read(thing: str) -> PlainTextResponse:
        if thing == "broken":
            raise RuntimeError("secret of " + thing)
        return PlainTextResponse(thing)

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


def count(route: str, status: str) -> float:
    labels = {"route": route, "method": "GET", "status": status}
    return REGISTRY.get_sample_value("rag_http_requests_total", labels) or 0.0


async def test_a_valid_request_id_is_echoed(client: httpx.AsyncClient) -> None:
    response = await client.get("/things/1", headers={"X-Request-Id": "abc-1:2.3_4"})

    assert response.headers["x-request-id"] == "abc-1:2.3_4"


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "<script>"])
async def test_another_one_is_replaced(client: httpx.AsyncClient, given: str) -> None:
    response = await client.get("/things/1", headers={"X-Request-Id": given})

    assert response.headers["x-request-id"] not in ("", given)


async def test_requests_are_counted_under_the_template_of_their_route(client: httpx.AsyncClient) -> None:
    before = count("/things/{thing}", "200")

    for thing in range(20):
        await client.get(f"/things/{thing}")

    assert count("/things/{thing}", "200") == before + 20


async def test_unknown_paths_share_one_label(client: httpx.AsyncClient) -> None:
    before = count("unmatched", "404")

    for path in range(5):
        await client.get(f"/{path}")

    assert count("unmatched", "404") == before + 5


async def test_an_unexpected_error_tells_the_client_only_the_requests_id(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    response = await client.get("/things/broken", headers={"X-Request-Id": "r-1"})

    problem = response.json()
    assert (response.status_code, problem["code"], problem["request_id"]) == (500, "internal", "r-1")
    assert "secret" not in response.text
    assert any(record.exc_info for record in caplog.records)


async def test_a_slash_inside_a_name_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.get("/things/a%2Fb")

    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")


async def test_the_log_line_holds_the_route_but_not_the_path(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="rag.api.middleware")

    await client.get("/things/private-name?q=private-query")

    [record] = [each for each in caplog.records if each.name == "rag.api.middleware"]
    assert record.__dict__["route"] == "/things/{thing}"
    assert "private" not in str(record.__dict__)
