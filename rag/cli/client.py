"""A client of the REST service that turns every failure into one clear error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from rag.cli.exits import RefusedError, ServiceUnreachableError
from rag.cli.options import chosen_settings, chosen_url
from rag.core.errors import ConfigurationError
from rag.supervision.addresses import base_url

TIMEOUT = httpx.Timeout(150.0, connect=5.0)
"""Longer than the longest deadline that the service grants a request."""

_Result = TypeVar("_Result")


def service_url() -> str:
    """``--url``, else what the service on the data folder wrote down, else the configured address."""
    url = chosen_url()
    if url is None:
        settings = chosen_settings()
        url = _written_url(settings.data_dir) or base_url(settings.http.host, settings.http.port)
    return url.rstrip("/")


def _written_url(data_dir: Path) -> str | None:
    try:
        written = json.loads((data_dir / "run" / "service.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    url = written.get("url") if isinstance(written, dict) else None
    return url if isinstance(url, str) else None


def path(*parts: str) -> str:
    """Return the path of a route from its parts, each one quoted."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


class Service:
    """Calls one service. Raises ``ServiceUnreachableError`` where none answers, ``RefusedError`` for its refusals."""

    def __init__(self, http: httpx.AsyncClient, *, url: str) -> None:
        self._http = http
        self.url = url

    async def request(self, method: str, route: str, **options: Any) -> httpx.Response:
        """Send one request and return the answer, whose status is below 400."""
        try:
            response = await self._http.request(method, route, **options)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if response.is_error:
            raise refusal(response)
        return response

    async def get(self, route: str, **query: Any) -> dict[str, Any]:
        """GET a JSON object; query values that are ``None`` are left out."""
        response = await self.request("GET", route, params=_given(query))
        return decode(response)

    async def post(self, route: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """POST a JSON object and return the one that comes back."""
        return decode(await self.request("POST", route, json=None if body is None else dict(body)))

    async def delete(self, route: str) -> None:
        """DELETE."""
        await self.request("DELETE", route)

    async def events(self, route: str, body: Mapping[str, Any]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """POST and yield the server-sent events of the answer as (name, data)."""
        try:
            async with self._http.stream("POST", route, json=dict(body)) as response:
                if response.is_error:
                    await response.aread()
                    raise refusal(response)
                async for event in parse_events(response.aiter_lines()):
                    yield event
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.HTTPError) -> ServiceUnreachableError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return ServiceUnreachableError(f"no service answers at {self.url}; start one with `anchorage up`")
        what = "did not answer in time" if isinstance(error, httpx.TimeoutException) else "broke off the connection"
        return ServiceUnreachableError(f"the service at {self.url} {what}")


@asynccontextmanager
async def open_service(url: str, *, transport: httpx.AsyncBaseTransport | None = None) -> AsyncIterator[Service]:
    """Open a client of the service at ``url``. Raises ``ConfigurationError`` where that is no address."""
    try:
        http = httpx.AsyncClient(base_url=url, timeout=TIMEOUT, transport=transport, trust_env=False)
    except (httpx.InvalidURL, ValueError) as error:
        raise ConfigurationError(f"{url!r} is not an address: {error}") from error
    if http.base_url.scheme not in {"http", "https"} or not http.base_url.host:
        await http.aclose()
        raise ConfigurationError(f"{url!r} is not an address: it starts with http:// or https://")
    async with http:
        yield Service(http, url=url)


def connect() -> AbstractAsyncContextManager[Service]:
    """Open a client of the service that the command line and the data folder name."""
    return open_service(service_url())


def call(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a command's coroutine; Ctrl-C cancels it."""
    return asyncio.run(work)


def refusal(response: httpx.Response) -> RefusedError:
    """Read a problem+json answer, or make the best of another one."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    problem = problem if isinstance(problem, dict) else {}
    message = problem.get("detail") or problem.get("title") or f"the service answered {response.status_code}"
    return RefusedError(
        str(message),
        refusal=str(problem.get("code") or f"http_{response.status_code}"),
        http_status=response.status_code,
        retry_after=_seconds(response.headers.get("Retry-After")),
    )


def decode(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of an answer; something else means that this is not an Anchorage service."""
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ServiceUnreachableError(f"what answers at {response.url} is not an Anchorage service")
    return document


async def parse_events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Turn the lines of an event stream into (name, data)."""
    name, data = "message", list[str]()
    async for line in lines:
        field, _, value = line.partition(":")
        if not line:
            if data:
                yield name, json.loads("\n".join(data))
            name, data = "message", []
        elif field == "event":
            name = value.strip()
        elif field == "data":
            data.append(value.removeprefix(" "))


def _given(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}


def _seconds(header: str | None) -> float | None:
    try:
        return float(header) if header else None
    except ValueError:
        return None
