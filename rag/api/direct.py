"""Routes whose endpoint reads its request itself: FastAPI describes them, and stays out of their way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from rag.api.deps import check_query


class DirectRoute(APIRoute):
    """Calls the endpoint with the request and the parts of its path, as they stand.

    Resolving dependencies and declared parameters is half of what the framework costs a search; such an endpoint
    has none. What must hold of every request, such as who makes it, is therefore the business of a middleware.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See ``APIRoute``."""
        endpoint = cast("Callable[..., Awaitable[Response]]", self.endpoint)

        async def handle(request: Request) -> Response:
            await check_query(request)
            return await endpoint(request, **request.path_params)

        return handle
