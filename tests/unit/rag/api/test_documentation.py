"""The OpenAPI description."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rag.api.app import create_app
from rag.services import Services


@asynccontextmanager
async def nothing() -> AsyncIterator[Services]:
    pytest.fail("a description needs no services")
    yield


def test_every_reference_of_the_description_leads_somewhere() -> None:
    description = create_app(nothing).openapi()

    names = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(description)))

    assert {"SearchBody", "AnswerBody", "CollectionBody", "TextDocumentBody", "MetadataBody"} <= names
    assert names <= set(description["components"]["schemas"])


def test_an_upload_is_described_in_both_of_its_forms() -> None:
    description = create_app(nothing).openapi()

    upload = description["paths"]["/v1/collections/{collection}/documents"]["post"]["requestBody"]["content"]

    assert set(upload) == {"application/json", "multipart/form-data"}
