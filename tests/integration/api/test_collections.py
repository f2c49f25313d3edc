"""Routes of collections over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from rag.core.errors import CollectionNotFoundError
from rag.core.types import Scope
from tests.integration.api.running import Running, problem

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_collection_is_created_once_and_found_under_its_name(service: Running) -> None:
    body = {"name": f"研究 资料 {uuid4().hex}", "fields": {"year": "integer"}, "metric": "cosine"}
    path = "/v1/collections/" + quote(body["name"])

    first = await service.http.post("/v1/collections", json=body)
    second = await service.http.post("/v1/collections", json=body)
    shown = await service.http.get(path)

    assert (first.status_code, second.status_code, shown.status_code) == (201, 200, 200)
    assert first.json() == second.json() == shown.json()
    assert set(shown.json()) == {
        "name", "embedding_model", "dimension", "metric", "quantization", "fields", "documents", "chunks", "epoch",
        "created_at",
    }  # fmt: skip
    assert shown.json()["embedding_model"] == "hash-64"
    assert shown.json()["dimension"] == 64
    assert shown.json()["fields"] == {"year": "integer"}


async def test_the_same_name_with_other_settings_is_a_conflict(service: Running) -> None:
    path = await service.collection()

    response = await service.http.post(
        "/v1/collections", json={"name": path.rpartition("/")[2], "fields": {"year": "integer"}}
    )

    assert problem(response) == (409, "collection_exists")


async def test_a_create_that_was_interrupted_is_healed_by_repeating_it(service: Running) -> None:
    path = await service.collection()
    view = await service.services.catalog.collection(Scope(), path.rpartition("/")[2])
    await service.services.store.drop_collection(view.physical)

    response = await service.http.post("/v1/collections", json={"name": view.name})

    assert response.status_code == 200
    assert await service.services.store.describe_collection(view.physical) == view.spec


async def test_collections_are_listed(service: Running) -> None:
    path = await service.collection()

    listed = (await service.http.get("/v1/collections")).json()["collections"]

    assert path.rpartition("/")[2] in [each["name"] for each in listed]


async def test_a_deleted_collection_is_gone_with_its_documents(service: Running) -> None:
    path = await service.collection()
    document = await service.document(path, "Some text.")
    view = await service.services.catalog.collection(Scope(), path.rpartition("/")[2])

    response = await service.http.delete(path)

    assert response.status_code == 204
    assert problem(await service.http.get(path)) == (404, "collection_not_found")
    assert (await service.http.get(f"{path}/documents/{document['id']}")).status_code == 404
    assert problem(await service.http.post(f"{path}/search", json={"query": "text"})) == (404, "collection_not_found")
    with pytest.raises(CollectionNotFoundError):
        await service.services.store.describe_collection(view.physical)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid_request"),
        ({"name": ""}, 422, "invalid_request"),
        ({"name": "a/b"}, 422, "invalid_request"),
        ({"name": ".."}, 422, "invalid_request"),
        ({"name": "a\u0000b"}, 422, "invalid_request"),
        ({"name": "x" * 129}, 422, "invalid_request"),
        ({"name": "n", "fields": {"text": "string"}}, 422, "invalid_request"),
        ({"name": "n", "fields": {"": "string"}}, 422, "invalid_request"),
        ({"name": "n", "fields": {"year": "number"}}, 422, "invalid_request"),
        ({"name": "n", "shards": 3}, 422, "invalid_request"),
        ({"name": "n", "embedding_model": "other-model"}, 409, "model_mismatch"),
        ([], 422, "invalid_request"),
    ],
)
async def test_a_faulty_collection_is_refused(service: Running, body: Any, status: int, code: str) -> None:
    response = await service.http.post("/v1/collections", json=body)

    assert problem(response) == (status, code)


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": "\\ud800"}', b"\xff", b"NaN"])
async def test_a_body_that_is_not_json_is_refused(service: Running, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}

    response = await service.http.post("/v1/collections", content=content, headers=headers)

    assert problem(response) == (422, "invalid_request")


async def test_a_body_of_another_type_is_refused(service: Running) -> None:
    response = await service.http.post("/v1/collections", data={"name": "n"})

    assert problem(response) == (415, "unsupported_media_type")


async def test_a_json_body_beyond_the_limit_is_refused(service: Running) -> None:
    response = await service.http.post("/v1/collections", json={"name": "x" * 3_000_000})

    assert problem(response) == (413, "too_large")


async def test_a_slash_in_a_name_is_refused(service: Running) -> None:
    response = await service.http.get("/v1/collections/a%2Fb")

    assert problem(response) == (422, "invalid_request")


async def test_unknown_routes_and_methods_are_problems_too(service: Running) -> None:
    unknown = await service.http.get("/v2/collections")
    method = await service.http.put("/v1/collections", json={})

    assert problem(unknown) == (404, "not_found")
    assert problem(method) == (405, "method_not_allowed")
    assert method.headers["allow"]
