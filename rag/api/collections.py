"""Routes of collections."""

from __future__ import annotations

import asyncio
import logging

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from rag.api.deps import json_response, read_body, scope_of, services_of
from rag.api.documentation import takes
from rag.api.names import collection_name
from rag.api.schemas import CollectionBody
from rag.api.views import collection_json
from rag.core.errors import ModelMismatchError, UpstreamError
from rag.core.records import CollectionSpec, HnswIndex
from rag.services import Services
from stores.validation import check_spec

router = APIRouter(prefix="/v1/collections", tags=["collections"])

CLEANUP_SECONDS = 5.0

_logger = logging.getLogger(__name__)


@router.post("", status_code=201, openapi_extra=takes(CollectionBody))
async def create_collection(request: Request) -> Response:
    """Create a collection: 201, or 200 when it is already there with the same settings.

    The store's side is made after the catalog's and made again on every call, so that a create which was
    interrupted between the two is healed by repeating it.
    """
    services = services_of(request)
    body = await read_body(request, CollectionBody)
    name = collection_name(body.name)
    model, spec = _usable_model(body, services), _spec(body, services)
    check_spec(spec, services.store.capabilities)
    view, created = await services.catalog.create_collection(scope_of(request), name, embedding_model=model, spec=spec)
    await services.store.create_collection(view.physical, view.spec)
    return json_response(collection_json(view), 201 if created else 200)


def _usable_model(body: CollectionBody, services: Services) -> str:
    configured = services.embedder.model
    if body.embedding_model not in (None, configured):
        raise ModelMismatchError(
            f"the service is configured with the embedding model {configured}, not {body.embedding_model}"
        )
    return configured


def _spec(body: CollectionBody, services: Services) -> CollectionSpec:
    return CollectionSpec(
        dimension=services.embedder.dimension,
        metric=body.metric,
        index=HnswIndex(m=body.index.m, ef_construction=body.index.ef_construction),
        filterable=dict(body.fields),
        quantization=body.quantization,
    )


@router.get("")
async def list_collections(request: Request) -> Response:
    """All collections."""
    views = await services_of(request).catalog.list_collections(scope_of(request))
    return json_response({"collections": [collection_json(view) for view in views]})


@router.get("/{collection}")
async def get_collection(request: Request, collection: str) -> Response:
    """One collection."""
    view = await services_of(request).catalog.collection(scope_of(request), collection)
    return json_response(collection_json(view))


@router.delete("/{collection}", status_code=204)
async def delete_collection(request: Request, collection: str) -> Response:
    """Delete a collection with all of its documents: gone at once; its records follow, at the latest by the sweep."""
    services = services_of(request)
    view = await services.catalog.delete_collection(scope_of(request), collection)
    try:
        async with asyncio.timeout(CLEANUP_SECONDS):
            await services.store.drop_collection(view.physical)
    except (UpstreamError, TimeoutError) as error:
        _logger.warning("drop left to the sweep", extra={"action": "drop_deferred", "error": type(error).__name__})
    return Response(status_code=204)
