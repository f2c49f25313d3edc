"""The route that searches a collection."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from rag.api.deps import deadline_of, json_response, limits_of, read_body, request_id_of, scope_of, services_of
from rag.api.direct import DirectRoute
from rag.api.disconnect import while_connected
from rag.api.documentation import takes
from rag.api.limits import Limits
from rag.api.schemas import SearchBody
from rag.api.views import search_json
from rag.core.types import Scope
from rag.query import SearchRequest

router = APIRouter(prefix="/v1/collections/{collection}", tags=["query"], route_class=DirectRoute)


@router.post("/search", openapi_extra=takes(SearchBody))
async def search(request: Request, collection: str) -> Response:
    """The best hits for a query."""
    limits = limits_of(request)
    body = await read_body(request, SearchBody)
    wanted = search_request(body, collection, scope=scope_of(request), limits=limits, limit=limits.limit)
    deadline = deadline_of(request, default=limits.deadline)
    result = await while_connected(request, services_of(request).pipeline.search(wanted, deadline))
    return json_response(search_json(result, request_id=request_id_of(request)))


def search_request(body: SearchBody, collection: str, *, scope: Scope, limits: Limits, limit: int) -> SearchRequest:
    """The search that ``body`` asks for; ``limit`` hits where it does not say. The query path checks the rest."""
    return SearchRequest(
        scope=scope,
        collection=collection,
        query=body.query,
        limit=body.limit or limit,
        mode=body.mode or limits.mode,
        filter=body.filter,
        rerank=body.rerank,
        strict=body.strict,
    )
