"""Routes of documents over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast
from uuid import UUID, uuid4

import httpx
import pytest

from rag.api.limits import Limits
from rag.catalog import Catalog
from rag.catalog.alignment import align_metadata
from rag.core.errors import BacklogFullError, CatalogError, StorageFullError, StoreError
from rag.core.ports import Blobs, VectorStore
from rag.core.records import ByDocument, CollectionSpec
from rag.core.types import DocumentState, Scope
from rag.services import Services
from rag.testing import Unavailable
from tests.integration.api.conftest import Start
from tests.integration.api.running import SERVICE, Running, problem, publish, run

UNKNOWN = "6f1c3f0a-6a55-5d0c-9d0e-1b7f3f4f6c11"

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_file_is_accepted_before_it_is_parsed(service: Running) -> None:
    path = await service.collection(fields={"year": "integer"})
    files = {"file": ("报告.md", "# 标题\n\n正文".encode())}

    response = await service.http.post(f"{path}/documents", files=files, data={"metadata": '{"year": 2024}'})

    [document] = response.json()["documents"]
    assert response.status_code == 202
    assert response.headers["location"] == f"{path}/documents/{document['id']}"
    assert (document["state"], document["terminal"], document["unchanged"]) == ("queued", False, False)
    assert (document["source"], document["media_type"]) == ("报告.md", "text/markdown")
    assert document["metadata"] == {"year": 2024}
    assert (await service.http.get(response.headers["location"])).json()["id"] == document["id"]


async def test_several_files_are_accepted_at_once(service: Running) -> None:
    path = await service.collection()
    files = [("file", (f"{name}.txt", name.encode())) for name in ("one", "two", "三")]

    response = await service.http.post(f"{path}/documents", files=files)

    assert response.status_code == 202
    assert [each["source"] for each in response.json()["documents"]] == ["one.txt", "two.txt", "三.txt"]
    assert "location" not in response.headers


@pytest.mark.parametrize("action", ["", "/text", "/chunks", "/retry"])
async def test_a_document_of_an_unknown_collection_names_the_collection(service: Running, action: str) -> None:
    method = "POST" if action == "/retry" else "GET"

    response = await service.http.request(method, f"/v1/collections/nowhere/documents/{UNKNOWN}{action}")

    assert problem(response) == (404, "collection_not_found")


async def test_a_number_beyond_64_bits_in_metadata_does_not_spoil_the_listing(service: Running) -> None:
    path = await service.collection()

    accepted = await service.http.post(f"{path}/documents", json={"text": "t", "source": "s", "metadata": {"n": 1e30}})
    listed = await service.http.get(f"{path}/documents")

    assert accepted.status_code == 202
    assert [document["metadata"] for document in listed.json()["documents"]] == [{"n": 1e30}]


async def test_metadata_changed_by_several_clients_at_once_is_the_same_in_catalog_and_store(service: Running) -> None:
    path = await service.collection(fields={"year": "integer"})
    document = await service.document(path, "A harbour.")
    where = f"{path}/documents/{document['id']}"

    changes = [service.http.patch(where, json={"metadata": {"year": year}}) for year in range(16)]
    responses = await asyncio.gather(*changes)

    shown = (await service.http.get(where)).json()["metadata"]
    [hit] = (await service.http.post(f"{path}/search", json={"query": "harbour"})).json()["hits"]
    assert {response.status_code for response in responses} == {200}
    assert hit["metadata"] == shown


async def test_a_document_is_listed_by_a_source_in_another_normal_form(service: Running) -> None:
    path = await service.collection()
    await service.http.post(f"{path}/documents", json={"text": "t", "source": "caf\u00e9.txt"})

    listed = await service.http.get(f"{path}/documents", params={"source": "cafe\u0301.txt"})

    assert listed.json()["total"] == 1


async def test_the_same_bytes_again_are_unchanged(service: Running) -> None:
    path = await service.collection()
    body = {"text": "Some text.", "source": "a.txt"}

    first = await service.http.post(f"{path}/documents", json=body)
    second = await service.http.post(f"{path}/documents", json=body)

    assert (first.status_code, second.status_code) == (202, 200)
    [before], [after] = first.json()["documents"], second.json()["documents"]
    assert (before["id"], before["unchanged"], after["unchanged"]) == (after["id"], False, True)


async def test_a_published_document_shows_its_text_and_chunks(service: Running) -> None:
    path = await service.collection()
    text = "第一段。\n\nSecond paragraph."
    document = await service.document(path, text, title="A title")

    shown = await service.http.get(f"{path}/documents/{document['id']}/text")
    listing = (await service.http.get(f"{path}/documents/{document['id']}/chunks")).json()

    assert (document["state"], document["terminal"], document["chunks"]) == ("published", True, 2)
    assert (shown.text, shown.headers["content-type"]) == (text, "text/plain; charset=utf-8")
    assert [chunk["text"] for chunk in listing["chunks"]] == text.split("\n\n")
    assert all(text[chunk["start"] : chunk["end"]] == chunk["text"] for chunk in listing["chunks"])
    assert set(listing["chunks"][0]) == {"index", "id", "text", "start", "end", "page", "headings", "quality"}


async def test_a_queued_document_has_no_chunks_and_no_text_yet(service: Running) -> None:
    path = await service.collection()
    accepted = await service.http.post(f"{path}/documents", json={"text": "t", "source": "a.txt"})
    location = accepted.headers["location"]

    chunks = await service.http.get(f"{location}/chunks")
    text = await service.http.get(f"{location}/text")

    assert chunks.json() == {"chunks": [], "generation": None}
    assert problem(text) == (409, "conflict")


async def test_documents_are_listed_in_pages_and_by_state(service: Running) -> None:
    path = await service.collection()
    published = await service.document(path, "Published.")
    for name in "abc":
        await service.http.post(f"{path}/documents", json={"text": name, "source": name})

    first = (await service.http.get(f"{path}/documents", params={"limit": 3})).json()
    second = (await service.http.get(f"{path}/documents", params={"limit": 3, "cursor": first["next"]})).json()
    by_state = (await service.http.get(f"{path}/documents", params={"state": "published"})).json()
    by_source = (await service.http.get(f"{path}/documents", params={"source": "b"})).json()

    ids = [document["id"] for document in first["documents"] + second["documents"]]
    assert (len(set(ids)), first["total"], second["next"]) == (4, 4, None)
    assert [document["id"] for document in by_state["documents"]] == [published["id"]]
    assert [document["source"] for document in by_source["documents"]] == ["b"]


async def test_new_metadata_is_filtered_by_at_once(service: Running) -> None:
    path = await service.collection(fields={"year": "integer"})
    document = await service.document(path, "Some text.", metadata={"year": 2023})
    search = {"query": "text", "filter": {"type": "eq", "key": "year", "value": 2024}}

    before = (await service.http.post(f"{path}/search", json=search)).json()["hits"]
    patched = await service.http.patch(f"{path}/documents/{document['id']}", json={"metadata": {"year": 2024}})
    after = (await service.http.post(f"{path}/search", json=search)).json()["hits"]

    assert patched.json()["metadata"] == {"year": 2024}
    assert before == []
    assert [(hit["document"], hit["metadata"]) for hit in after] == [(document["id"], {"year": 2024})]


@pytest.mark.parametrize("publish_first", [True, False])
async def test_a_document_is_deleted_in_every_state(service: Running, publish_first: bool) -> None:
    path = await service.collection()
    accepted = await service.http.post(f"{path}/documents", json={"text": "Some text.", "source": "a.txt"})
    location = accepted.headers["location"]
    id = UUID(accepted.json()["documents"][0]["id"])
    if publish_first:
        await publish(service.services, id)
    view = await service.services.catalog.collection(Scope(), path.rpartition("/")[2])

    response = await service.http.delete(location)

    assert response.status_code == 204
    assert problem(await service.http.get(location)) == (404, "document_not_found")
    assert (await service.http.post(f"{path}/search", json={"query": "text"})).json()["hits"] == []
    assert await service.services.store.count(view.physical, SERVICE, ByDocument(document=id)) == 0


async def test_a_retry_queues_what_has_ended_and_keeps_it_served(service: Running) -> None:
    path = await service.collection()
    document = await service.document(path, "Some text.")
    location = f"{path}/documents/{document['id']}"

    response = await service.http.post(f"{location}/retry")
    hits = (await service.http.post(f"{path}/search", json={"query": "text"})).json()["hits"]
    again = await service.http.post(f"{location}/retry")

    assert [(each.status_code, each.json()["state"]) for each in (response, again)] == [(202, "queued")] * 2
    assert [hit["document"] for hit in hits] == [document["id"]]


async def test_uploads_are_refused_while_too_much_waits(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    path = await service.collection()

    async def full() -> None:
        raise BacklogFullError(retry_after=5.0)

    monkeypatch.setattr(service.services.catalog, "check_backlog", full)

    response = await service.http.post(f"{path}/documents", json={"text": "Some text.", "source": "a.txt"})

    assert problem(response) == (429, "backlog_full")
    assert response.headers["retry-after"] == "5"
    assert (await service.http.get(f"{path}/documents")).json()["total"] == 0


async def test_a_cancelled_document_is_worked_on_no_more_and_keeps_being_served(service: Running) -> None:
    path = await service.collection()
    document = await service.document(path, "Some text.")
    location = f"{path}/documents/{document['id']}"
    await service.http.post(f"{location}/retry")

    response = await service.http.post(f"{location}/cancel")
    hits = (await service.http.post(f"{path}/search", json={"query": "text"})).json()["hits"]
    again = await service.http.post(f"{location}/cancel")

    body = response.json()
    assert (response.status_code, body["state"], body["terminal"], body["promotion"]) == (202, "cancelled", True, None)
    assert [hit["document"] for hit in hits] == [document["id"]]
    assert problem(again) == (409, "conflict")


async def test_a_retry_in_a_collection_of_another_model_is_a_conflict(service: Running) -> None:
    name, catalog = uuid4().hex, service.services.catalog
    await catalog.create_collection(Scope(), name, embedding_model="another-model", spec=CollectionSpec(dimension=8))
    blob = await service.services.blobs.put(SERVICE, b"text")
    receipt = await catalog.create_document(
        Scope(), name, source="a.txt", blob=blob, media_type="text/plain", metadata={}
    )
    attempt = await catalog.claim(SERVICE.tenant, receipt.document.id)
    assert attempt is not None
    await catalog.fail(attempt, code="parse_failed", message="no", history=[])

    response = await service.http.post(f"/v1/collections/{name}/documents/{receipt.document.id}/retry")

    assert problem(response) == (409, "model_mismatch")
    assert (await catalog.get_document(Scope(), name, receipt.document.id)).state is DocumentState.FAILED


async def test_metadata_that_a_request_could_not_write_to_the_store_is_written_by_a_job(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, path = service.services, await service.collection(fields={"year": "integer"})
    document = await service.document(path, "A harbour.", metadata={"year": 1})
    where, id = f"{path}/documents/{document['id']}", UUID(document["id"])
    with monkeypatch.context() as broken:
        broken.setattr(services.store, "update_metadata", Unavailable(StoreError()).update_metadata)
        refused = await service.http.patch(where, json={"metadata": {"year": 2}})

    jobs = await services.catalog.jobs(stuck_after=60)
    await align_metadata(services.catalog, services.store, tenant=SERVICE.tenant, document=id)

    assert problem(refused) == (503, "store_unavailable")
    assert "align_metadata" in [job.task for job in jobs if job.document == id]
    [hit] = (await service.http.post(f"{path}/search", json={"query": "harbour"})).json()["hits"]
    assert hit["metadata"] == (await service.http.get(where)).json()["metadata"] == {"year": 2}


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/v1/collections?nmae=x", "nmae"),
        ("/v1/jobs?stuk=true", "stuk"),
        ("{collection}/documents?sate=failed", "sate"),
        ("{collection}/documents?state=failed&limit=1&offset=2&page=3", "offset, page"),
    ],
)
async def test_an_unknown_query_parameter_is_named(service: Running, path: str, named: str) -> None:
    collection = await service.collection()

    response = await service.http.get(path.format(collection=collection))

    assert problem(response) == (422, "invalid_request")
    assert f"unknown query parameter {named};" in response.json()["detail"]


async def test_a_source_with_a_nul_character_is_refused_and_nothing_is_kept(service: Running) -> None:
    path = await service.collection()

    as_json = await service.http.post(f"{path}/documents", json={"text": "t", "source": "a\0b.txt"})
    as_file = await service.http.post(f"{path}/documents", files={"file": ("a.txt", b"t")}, data={"source": "a\0b.txt"})

    assert {problem(as_json), problem(as_file)} == {(422, "invalid_request")}
    assert (await service.http.get(f"{path}/documents")).json()["total"] == 0


@pytest.mark.parametrize(
    ("method", "suffix", "options"),
    [
        ("GET", "", {}),
        ("PATCH", "", {"json": {"metadata": {}}}),
        ("DELETE", "", {}),
        ("GET", "/text", {}),
        ("GET", "/chunks", {}),
        ("POST", "/retry", {}),
        ("POST", "/cancel", {}),
    ],
)
async def test_unknown_foreign_and_malformed_ids_answer_alike(
    service: Running, method: str, suffix: str, options: dict[str, Any]
) -> None:
    path = await service.collection()
    name = path.rpartition("/")[2]
    foreign = await _foreign_document(service, name)
    headers = {"X-Request-Id": "r"}

    answers = [
        await service.http.request(method, f"{path}/documents/{id}{suffix}", headers=headers, **options)
        for id in (UNKNOWN, foreign)
    ]
    malformed = await service.http.request(method, f"{path}/documents/17{suffix}", **options)

    unknown, other = (answer.text.replace(UNKNOWN, "ID").replace(foreign, "ID") for answer in answers)
    assert unknown == other
    assert {problem(answer) for answer in (*answers, malformed)} == {(404, "document_not_found")}
    assert await service.services.catalog.get_document(Scope(tenant="other"), name, UUID(foreign))


async def _foreign_document(service: Running, name: str) -> str:
    other = Scope(tenant="other")
    view = await service.services.catalog.collection(Scope(), name)
    await service.services.catalog.create_collection(other, name, embedding_model="hash-64", spec=view.spec)
    blob = await service.services.blobs.put(other, b"secret")
    receipt = await service.services.catalog.create_document(
        other, name, source="a.txt", blob=blob, media_type="text/plain", metadata={}
    )
    return str(receipt.document.id)


@pytest.mark.parametrize(
    ("options", "status", "code"),
    [
        ({"files": {"file": ("a.txt", b"")}}, 422, "invalid_request"),
        ({"files": {"file": ("a.xyz", b"\x00\x01\x02")}}, 415, "unsupported_media_type"),
        ({"files": {"file": ("a.png", b"\x89PNG\r\n\x1a\n")}}, 415, "unsupported_media_type"),
        ({"files": {"file": ("a.txt", b"x")}, "data": {"metadata": "{"}}, 422, "invalid_request"),
        ({"files": {"file": ("a.txt", b"x")}, "data": {"metadata": '{"year": "x"}'}}, 422, "invalid_filter"),
        ({"files": {"file": ("a.txt", b"x")}, "data": {"colour": "red"}}, 422, "invalid_request"),
        ({"files": {"document": ("a.txt", b"x")}}, 422, "invalid_request"),
        ({"files": {"file": ("\u202e", b"x")}}, 422, "invalid_request"),
        ({"json": {"text": "", "source": "a"}}, 422, "invalid_request"),
        ({"json": {"text": "  \n", "source": "a"}}, 422, "invalid_request"),
        ({"json": {"text": "a\u0000b", "source": "a"}}, 422, "invalid_request"),
        ({"json": {"text": "x", "source": " "}}, 422, "invalid_request"),
        ({"json": {"text": "x", "source": "y" * 1025}}, 422, "invalid_request"),
        ({"json": {"text": "x", "source": "a", "media_type": "application/pdf"}}, 415, "unsupported_media_type"),
        ({"json": {"text": "x", "source": "a", "metadata": {"text": "x"}}}, 422, "invalid_filter"),
        ({"content": b"x", "headers": {"Content-Type": "text/plain"}}, 415, "unsupported_media_type"),
        ({"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}, 422, "invalid_request"),
    ],
)
async def test_a_faulty_upload_is_refused_and_nothing_is_kept(
    service: Running, options: dict[str, Any], status: int, code: str
) -> None:
    path = await service.collection(fields={"year": "integer"})

    response = await service.http.post(f"{path}/documents", **options)

    assert problem(response) == (status, code)
    assert (await service.http.get(f"{path}/documents")).json()["total"] == 0


async def test_one_faulty_file_refuses_all_of_them(service: Running) -> None:
    path = await service.collection()
    files = [("file", ("a.txt", b"good")), ("file", ("b.txt", b""))]

    response = await service.http.post(f"{path}/documents", files=files)

    assert problem(response) == (422, "invalid_request")
    assert (await service.http.get(f"{path}/documents")).json()["total"] == 0


@pytest.mark.parametrize("announced", [True, False])
async def test_an_upload_beyond_the_limit_is_refused(start: Start, announced: bool) -> None:
    service = await start(limits=Limits(max_upload=200_000))
    path = await service.collection()
    request = service.http.build_request("POST", f"{path}/documents", files={"file": ("a.txt", b"x" * 5_000_000)})
    content = request.read() if announced else _pieces(request.read())

    response = await service.http.post(
        f"{path}/documents", content=content, headers={"Content-Type": request.headers["Content-Type"]}
    )

    assert problem(response) == (413, "too_large")
    assert (await service.http.get(f"{path}/documents")).json()["total"] == 0


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 65_536):
        yield content[start : start + 65_536]


async def test_an_upload_to_an_unknown_collection_is_refused(service: Running) -> None:
    response = await service.http.post(f"/v1/collections/{uuid4().hex}/documents", json={"text": "x", "source": "a"})

    assert problem(response) == (404, "collection_not_found")


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 501}, {"state": "lost"}, {"cursor": "no cursor"}])
async def test_a_faulty_listing_is_refused(service: Running, query: dict[str, Any]) -> None:
    path = await service.collection()

    response = await service.http.get(f"{path}/documents", params=query)

    assert problem(response) == (422, "invalid_request")


async def test_metadata_of_another_type_is_refused(service: Running) -> None:
    path = await service.collection(fields={"year": "integer"})
    document = await service.document(path, "Some text.", metadata={"year": 2023})

    response = await service.http.patch(f"{path}/documents/{document['id']}", json={"metadata": {"year": "x"}})

    assert problem(response) == (422, "invalid_filter")
    shown: httpx.Response = await service.http.get(f"{path}/documents/{document['id']}")
    assert shown.json()["metadata"] == {"year": 2023}


async def test_a_client_that_leaves_in_the_middle_of_an_upload_leaves_nothing(service: Running) -> None:
    path = await service.collection()
    request = service.http.build_request("POST", f"{path}/documents", files={"file": ("a.txt", b"x" * 3_000_000)})
    head = f"POST {path}/documents HTTP/1.1\r\nHost: test\r\nContent-Type: {request.headers['Content-Type']}\r\n"
    length = f"Content-Length: {request.headers['Content-Length']}\r\n\r\n"
    _, writer = await asyncio.open_connection(service.http.base_url.host, service.http.base_url.port)
    writer.write((head + length).encode() + request.read()[:2_000_000])
    await writer.drain()

    writer.close()
    await writer.wait_closed()

    assert (await service.http.get(f"{path}/documents")).json()["total"] == 0
    again = await service.http.post(f"{path}/documents", files={"file": ("a.txt", b"x")})
    assert again.status_code == 202


async def test_a_full_disk_refuses_the_upload_and_keeps_nothing(services: Services) -> None:
    blobs = cast("Blobs", Unavailable(StorageFullError("the disk is full")))

    async with run(replace(services, blobs=blobs)) as service:
        path = await service.collection()
        response = await service.http.post(f"{path}/documents", files={"file": ("a.txt", b"x")})
        listed = await service.http.get(f"{path}/documents")

    assert problem(response) == (507, "storage_full")
    assert listed.json()["total"] == 0


async def test_without_its_catalog_the_service_says_when_to_try_again(services: Services) -> None:
    catalog = cast("Catalog", Unavailable(CatalogError("it is down")))

    async with run(replace(services, catalog=catalog)) as service:
        response = await service.http.get("/v1/collections/any/documents")
        scrape = await service.http.get("/metrics")

    assert problem(response) == (503, "catalog_unavailable")
    assert response.headers["retry-after"] == "1"
    assert scrape.status_code == 200


async def test_a_store_that_fails_does_not_keep_a_document_from_being_deleted(services: Services) -> None:
    async with run(services) as service:
        path = await service.collection()
        document = await service.document(path, "Some text.")
    store = cast("VectorStore", Unavailable(StoreError("it is down")))

    async with run(replace(services, store=store)) as service:
        response = await service.http.delete(f"{path}/documents/{document['id']}")
        gone = await service.http.get(f"{path}/documents/{document['id']}")

    assert (response.status_code, gone.status_code) == (204, 404)
