"""The route that takes documents in: kept durably, queued, answered before anything is parsed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from rag.api.deps import check_model, content_type, json_response, limits_of, read_body, scope_of, services_of
from rag.api.documentation import takes
from rag.api.metadata import accept_metadata
from rag.api.schemas import TextDocumentBody
from rag.api.uploads import check_form, read_form
from rag.api.views import receipt_json
from rag.core.catalog import CollectionView, Receipt
from rag.core.errors import InvalidRequestError, UnsupportedMediaTypeError
from rag.core.media import CSV, HTML, MARKDOWN, TEXT
from rag.core.names import source_name
from rag.core.types import FieldType, Metadata, Scope
from rag.services import Services

router = APIRouter(prefix="/v1/collections/{collection}/documents", tags=["documents"])

_TEXTUAL = (TEXT, MARKDOWN, HTML, CSV)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Intake:
    """Where the documents of one request go."""

    services: Services
    scope: Scope
    collection: CollectionView

    @property
    def fields(self) -> Mapping[str, FieldType]:
        """The declared fields, which metadata is checked by."""
        return self.collection.spec.filterable

    async def keep(
        self, content: bytes, *, source: str, media_type: str, metadata: Metadata, title: str | None = None
    ) -> Receipt:
        """First the bytes, durably; then the row and its job in one commit. Refused while too much waits."""
        await self.services.catalog.admit(len(content))
        blob = await self.services.blobs.put(self.scope, content)
        return await self.services.catalog.create_document(
            self.scope,
            self.collection.name,
            source=source,
            blob=blob,
            media_type=media_type,
            metadata=metadata,
            title=title,
        )


@router.post("", status_code=202, openapi_extra=takes(TextDocumentBody, files=True))
async def add_documents(request: Request, collection: str) -> Response:
    """Take in files (multipart: ``file`` once or more, ``metadata``, ``source``) or a text (JSON).

    202 with the documents as they are queued, 200 when all of their bytes and metadata were already there, 429 with
    ``Retry-After`` while too many documents or bytes wait to be ingested.
    """
    services, scope = services_of(request), scope_of(request)
    target = await services.catalog.collection(scope, collection)
    check_model(target, services)
    await services.catalog.check_backlog()
    intake = _Intake(services=services, scope=scope, collection=target)
    kind = content_type(request)
    if kind == "multipart/form-data":
        receipts = await _add_files(request, intake)
    elif kind == "application/json":
        receipts = [await _add_text(request, intake)]
    else:
        raise UnsupportedMediaTypeError("send documents as multipart/form-data, or a text as application/json")
    return _accepted(receipts, target)


async def _add_files(request: Request, intake: _Intake) -> list[Receipt]:
    limits = limits_of(request)
    slots: asyncio.Semaphore = request.app.state.upload_slots
    form = await read_form(request, max_upload=limits.max_upload)
    try:
        batch = await check_form(form, fields=intake.fields, max_upload=limits.max_upload)
        receipts = []
        for upload in batch.uploads:
            async with slots:
                content = await upload.content()
                receipts.append(
                    await intake.keep(
                        content, source=upload.source, media_type=upload.media_type, metadata=batch.metadata
                    )
                )
        return receipts
    finally:
        await form.close()


async def _add_text(request: Request, intake: _Intake) -> Receipt:
    body = await read_body(request, TextDocumentBody)
    media_type = body.media_type.partition(";")[0].strip().lower()
    if media_type not in _TEXTUAL:
        raise UnsupportedMediaTypeError(f"a text is one of {', '.join(_TEXTUAL)}; send other formats as files")
    if not body.text.strip():
        raise InvalidRequestError("the text is empty")
    return await intake.keep(
        body.text.encode(),
        source=source_name(body.source),
        media_type=media_type,
        metadata=accept_metadata(body.metadata, intake.fields),
        title=body.title,
    )


def _accepted(receipts: list[Receipt], target: CollectionView) -> Response:
    headers = {}
    if len(receipts) == 1:
        name = quote(target.name, safe="")
        headers["Location"] = f"/v1/collections/{name}/documents/{receipts[0].document.id}"
    status = 200 if all(receipt.unchanged for receipt in receipts) else 202
    return json_response({"documents": [receipt_json(receipt) for receipt in receipts]}, status, headers)
