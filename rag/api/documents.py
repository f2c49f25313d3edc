"""Routes of a collection's documents: listing, reading, metadata, deletion, retry, cancellation."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rag.api.deps import check_model, json_response, read_body, scope_of, services_of
from rag.api.documentation import takes
from rag.api.metadata import accept_metadata
from rag.api.names import document_id
from rag.api.schemas import MetadataBody
from rag.api.views import chunk_json, document_json
from rag.catalog.alignment import align_metadata
from rag.core.errors import ConflictError, UpstreamError
from rag.core.names import source_name
from rag.core.records import ByDocument, Record
from rag.core.types import DocumentState, Quality, Scope
from rag.services import Services

router = APIRouter(prefix="/v1/collections/{collection}/documents", tags=["documents"])

CLEANUP_SECONDS = 5.0
MAX_PAGE = 500

_READS = 3

_logger = logging.getLogger(__name__)


@router.get("")
async def list_documents(
    request: Request,
    collection: str,
    *,
    state: DocumentState | None = None,
    source: Annotated[str | None, Query(max_length=1024)] = None,
    cursor: Annotated[str | None, Query(max_length=1024)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
) -> Response:
    """One page of documents; pass ``next`` as ``cursor`` for the following one."""
    kept = None if source is None else source_name(source)
    page = await services_of(request).catalog.list_documents(
        scope_of(request), collection, state=state, source=kept, cursor=cursor, limit=limit
    )
    documents = [document_json(document) for document in page.items]
    return json_response({"documents": documents, "next": page.next, "total": page.total})


@router.get("/{document}")
async def get_document(request: Request, collection: str, document: str) -> Response:
    """One document with its state and the history of its attempts."""
    view = await services_of(request).catalog.get_document(scope_of(request), collection, document_id(document))
    return json_response(document_json(view))


@router.patch("/{document}", openapi_extra=takes(MetadataBody))
async def update_metadata(request: Request, collection: str, document: str) -> Response:
    """Replace a document's metadata without ingesting it again; filters see it at once."""
    services, scope = services_of(request), scope_of(request)
    body = await read_body(request, MetadataBody)
    target = await services.catalog.collection(scope, collection)
    metadata = accept_metadata(body.metadata, target.spec.filterable)
    view = await services.catalog.update_metadata(scope, target.name, document_id(document), metadata)
    await align_metadata(services.catalog, services.store, tenant=scope.tenant, document=view.id)
    return json_response(document_json(view))


@router.delete("/{document}", status_code=204)
async def delete_document(request: Request, collection: str, document: str) -> Response:
    """Delete a document in whatever state: gone at once; its records follow, at the latest by the sweep."""
    services, scope = services_of(request), scope_of(request)
    target = await services.catalog.collection(scope, collection)
    id = document_id(document)
    await services.catalog.delete_document(scope, target.name, id)
    try:
        async with asyncio.timeout(CLEANUP_SECONDS):
            await services.store.delete(target.physical, scope.as_service(), ByDocument(document=id))
    except (UpstreamError, TimeoutError) as error:
        _logger.warning("delete left to the sweep", extra={"action": "delete_deferred", "error": type(error).__name__})
    return Response(status_code=204)


@router.get("/{document}/text")
async def get_text(request: Request, collection: str, document: str) -> Response:
    """The parsed text that is being served; chunk and citation offsets count its code points."""
    services, scope = services_of(request), scope_of(request)
    id = document_id(document)
    ref = await services.catalog.text_ref(scope, collection, id)
    if ref is not None:
        return PlainTextResponse(await services.blobs.get(scope, ref))
    view = await services.catalog.get_document(scope, collection, id)
    if view.quality is Quality.NO_TEXT:
        return PlainTextResponse(b"")
    raise ConflictError(f"the document has no text yet: it is {view.state}")


@router.get("/{document}/chunks")
async def get_chunks(request: Request, collection: str, document: str) -> Response:
    """The chunks that are being served, in the order of the text."""
    services, scope = services_of(request), scope_of(request)
    id = document_id(document)
    generation, records = await _served_chunks(services, scope, collection, id)
    return json_response({"chunks": [chunk_json(record) for record in records], "generation": generation})


async def _served_chunks(
    services: Services, scope: Scope, collection: str, document: UUID
) -> tuple[int | None, list[Record]]:
    """Read again when another generation was published meanwhile: what was read may be half deleted."""
    view = await services.catalog.get_document(scope, collection, document)
    for _ in range(_READS):
        if view.generation is None:
            return None, []
        target = await services.catalog.collection(scope, collection)
        records = await _chunks(services, scope, target.physical, document, view.generation)
        before, view = view, await services.catalog.get_document(scope, collection, document)
        if before.generation == view.generation:
            return view.generation, records
    raise ConflictError("the document is being replaced over and over; try again")


async def _chunks(services: Services, scope: Scope, physical: str, document: UUID, generation: int) -> list[Record]:
    selector = ByDocument(document=document, generation=generation)
    records: list[Record] = []
    async for batch in services.store.scroll(physical, scope, selector=selector):
        records.extend(batch)
    return sorted(records, key=lambda record: record.index)


@router.post("/{document}/retry", status_code=202)
async def retry_document(request: Request, collection: str, document: str) -> Response:
    """Start anew in whatever state; what is served stays served until the new attempt publishes.

    A running attempt is stopped, a waiting document is tried at once.
    """
    services, scope = services_of(request), scope_of(request)
    check_model(await services.catalog.collection(scope, collection), services)
    view = await services.catalog.retry_document(scope, collection, document_id(document))
    return json_response(document_json(view), 202)


@router.post("/{document}/cancel", status_code=202)
async def cancel_document(request: Request, collection: str, document: str) -> Response:
    """End what waits or runs for the document; what is served stays served. 409 where there is nothing to end.

    A degraded document stays published and is not promoted any more.
    """
    scope = scope_of(request)
    view = await services_of(request).catalog.cancel_document(scope, collection, document_id(document))
    return json_response(document_json(view), 202)
