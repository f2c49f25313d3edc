"""The bodies of requests in the OpenAPI description: routes read them themselves, so they are described here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from rag.api.schemas import AnswerBody, CollectionBody, MetadataBody, SearchBody, TextDocumentBody

_REFERENCE = "#/components/schemas/{model}"
_BODIES = (AnswerBody, CollectionBody, MetadataBody, SearchBody, TextDocumentBody)
_UPLOAD = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "metadata": {"type": "string", "contentMediaType": "application/json"},
        "source": {"type": "string"},
    },
}


def takes(model: type[BaseModel], *, files: bool = False) -> dict[str, Any]:
    """What to add to a route that reads a body of ``model``, or with ``files`` a multipart upload instead."""
    content: dict[str, Any] = {"application/json": {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}}
    if files:
        content["multipart/form-data"] = {"schema": _UPLOAD}
    return {"requestBody": {"required": True, "content": content}}


def described(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """The description of ``app`` with the bodies that its routes name."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        description = generate()
        _, definitions = models_json_schema([(body, "validation") for body in _BODIES], ref_template=_REFERENCE)
        description.setdefault("components", {}).setdefault("schemas", {}).update(definitions["$defs"])
        return description

    return openapi
