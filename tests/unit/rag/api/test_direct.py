"""A route that is called directly takes the same requests as any other one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rag.api.direct import DirectRoute
from rag.core.errors import InvalidRequestError

router = APIRouter(prefix="/things/{name}", route_class=DirectRoute)


@router.post("/parts/{part}")
async def part_of(request: Request, name: str, part: str) -> Response:
    return PlainTextResponse(f"{request.method} {name} {part}")


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI(redirect_slashes=False)
    app.include_router(router)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        yield client


async def test_the_parts_of_the_path_come_decoded(client: httpx.AsyncClient) -> None:
    response = await client.post("/things/%E5%8F%B0%E9%A3%8E%20%231%3F/parts/a%2Bb%25")

    assert response.text == "POST 台风 #1? a+b%"


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/things/a/parts/b", 405), ("POST", "/things/a/parts/b/", 404), ("POST", "/things/a%2Fb/parts/c", 404),
])  # fmt: skip
async def test_other_methods_and_paths_are_not_its_own(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    assert (await client.request(method, path)).status_code == status


async def test_query_parameters_are_refused(client: httpx.AsyncClient) -> None:
    with pytest.raises(InvalidRequestError, match="limit"):
        await client.post("/things/a/parts/b?limit=3")
