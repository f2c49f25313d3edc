"""The route that answers a question, whole or as a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, assert_never

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from rag.api.deps import deadline_of, json_response, limits_of, read_body, request_id_of, scope_of, services_of
from rag.api.direct import DirectRoute
from rag.api.disconnect import while_connected
from rag.api.documentation import takes
from rag.api.schemas import AnswerBody
from rag.api.search import search_request
from rag.api.sse import EventStream
from rag.api.views import answer_json, citation_json, search_json
from rag.core.answers import Answer
from rag.core.errors import GenerationError
from rag.query import AnswerEvent, AnswerRequest, CitationEvent, DeltaEvent, DoneEvent, HitsEvent

router = APIRouter(prefix="/v1/collections/{collection}", tags=["query"], route_class=DirectRoute)


@router.post("/answer", openapi_extra=takes(AnswerBody))
async def answer(request: Request, collection: str) -> Response:
    """An answer with citations: JSON, or with ``stream`` the events hits, delta, citation, done and error."""
    limits, request_id = limits_of(request), request_id_of(request)
    body = await read_body(request, AnswerBody)
    wanted = _answer_request(request, body, collection)
    events = services_of(request).pipeline.answer(wanted, deadline_of(request, default=limits.answer_deadline))
    if body.stream:
        source = _wire_events(events, request_id)
        return EventStream(source, shutdown=request.app.state.shutdown)
    finished = await while_connected(request, _finish(events))
    return json_response(answer_json(finished, request_id=request_id))


def _answer_request(request: Request, body: AnswerBody, collection: str) -> AnswerRequest:
    limits = limits_of(request)
    return AnswerRequest(
        search=search_request(body, collection, scope=scope_of(request), limits=limits, limit=limits.answer_hits),
        history=tuple(turn.message() for turn in body.history),
        max_tokens=body.max_tokens,
        temperature=body.temperature,
    )


async def _finish(events: AsyncGenerator[AnswerEvent, None]) -> Answer:
    async with aclosing(events) as stream:
        async for event in stream:
            if isinstance(event, DoneEvent):
                return event.answer
    raise GenerationError("the answer broke off")


async def _wire_events(
    events: AsyncGenerator[AnswerEvent, None], request_id: str
) -> AsyncGenerator[tuple[str, Any], None]:
    async with aclosing(events) as stream:
        async for event in stream:
            yield _wire_event(event, request_id)


def _wire_event(event: AnswerEvent, request_id: str) -> tuple[str, Any]:
    match event:
        case HitsEvent(search=search):
            return "hits", search_json(search, request_id=request_id)
        case DeltaEvent(text=text):
            return "delta", {"text": text}
        case CitationEvent(citation=citation):
            return "citation", citation_json(citation)
        case DoneEvent(answer=finished):
            return "done", answer_json(finished, request_id=request_id)
        case _:
            assert_never(event)
