"""Search and answers over HTTP: results, streams, faults, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from rag.core.errors import GenerationError
from rag.core.records import CollectionSpec
from rag.core.types import Scope
from tests.integration.api.conftest import Start
from tests.integration.api.running import Running, problem

CANCELLED_WITHIN_SECONDS = 1.0

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def path(service: Running) -> str:
    """A collection of two documents."""
    path = await service.collection(fields={"year": "integer"})
    await service.document(path, "Water boils at 100 degrees.", source="water.txt", metadata={"year": 2024})
    await service.document(path, "故宫在北京。\n\nPalace museum.", source="故宫.txt", metadata={"year": 2023})
    return path


async def events(response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in response.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_a_search_finds_the_document_with_its_label(service: Running, path: str, mode: str) -> None:
    response = await service.http.post(f"{path}/search", json={"query": "故宫", "mode": mode, "limit": 1})

    result = response.json()
    assert response.status_code == 200
    assert [(hit["source"], hit["text"]) for hit in result["hits"]] == [("故宫.txt", "故宫在北京。")]
    assert set(result) == {"hits", "degraded", "skipped", "shortfall", "timings", "request_id"}
    assert set(result["hits"][0]) == {
        "id", "document", "source", "title", "score", "retrieval_score", "rerank_score", "text", "start", "end",
        "page", "headings", "quality", "metadata",
    }  # fmt: skip
    assert result["request_id"] == response.headers["x-request-id"]


async def test_a_filter_limits_what_is_found(service: Running, path: str) -> None:
    wanted = {"type": "lt", "key": "year", "value": 2024}

    hits = (await service.http.post(f"{path}/search", json={"query": "water", "filter": wanted})).json()["hits"]

    assert {hit["source"] for hit in hits} == {"故宫.txt"}


async def test_an_answer_cites_what_it_found(service: Running, path: str) -> None:
    response = await service.http.post(f"{path}/answer", json={"query": "When does water boil?"})

    answer = response.json()
    assert response.status_code == 200
    assert answer["text"] == "Water boils at 100 degrees [1]."
    [citation] = answer["citations"]
    assert (citation["marker"], citation["source"], citation["origin"]) == (1, answer["hits"][0]["source"], "model")
    assert {"text", "citations", "hits", "degraded", "skipped", "timings", "usage", "request_id"} <= set(answer)


async def test_the_stream_gives_the_same_answer_in_pieces(service: Running, path: str) -> None:
    question = {"query": "When does water boil?"}
    whole = (await service.http.post(f"{path}/answer", json=question)).json()

    async with service.http.stream("POST", f"{path}/answer", json={**question, "stream": True}) as response:
        streamed = [event async for event in events(response)]

    names = [name for name, _ in streamed]
    text = "".join(data["text"] for name, data in streamed if name == "delta")
    done = streamed[-1][1]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    assert (names[0], names[-1], set(names)) == ("hits", "done", {"hits", "delta", "citation", "done"})
    assert text == done["text"] == whole["text"]
    assert [data for name, data in streamed if name == "citation"] == done["citations"] == whole["citations"]
    assert [hit["id"] for hit in streamed[0][1]["hits"]] == [hit["id"] for hit in whole["hits"]]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_cancels_the_generation(service: Running, path: str, stream: bool) -> None:
    service.generator.gate = asyncio.Event()
    body = {"query": "When does water boil?", "stream": stream}
    asking = asyncio.create_task(service.http.post(f"{path}/answer", json=body))
    async with asyncio.timeout(10):
        await service.generator.started.wait()

    asking.cancel()

    async with asyncio.timeout(CANCELLED_WITHIN_SECONDS):
        await service.generator.cancelled.wait()


async def test_a_generator_that_fails_leaves_an_extractive_answer(service: Running, path: str) -> None:
    service.generator.error = GenerationError("it is down")

    answer = (await service.http.post(f"{path}/answer", json={"query": "When does water boil?"})).json()
    strict = await service.http.post(f"{path}/answer", json={"query": "When does water boil?", "strict": True})

    assert answer["degraded"] == ["generation"]
    assert answer["citations"]
    assert problem(strict) == (503, "degraded")


async def test_an_error_within_a_stream_is_its_last_event(service: Running, path: str) -> None:
    service.generator.error = GenerationError("it is down")
    body = {"query": "When does water boil?", "strict": True, "stream": True}

    async with service.http.stream("POST", f"{path}/answer", json=body) as response:
        streamed = [event async for event in events(response)]

    assert (response.status_code, [name for name, _ in streamed]) == (200, ["hits", "error"])
    assert streamed[-1][1]["code"] == "degraded"
    assert streamed[-1][1]["request_id"] == response.headers["x-request-id"]


async def test_an_error_before_the_stream_is_an_ordinary_problem(service: Running) -> None:
    response = await service.http.post(
        f"/v1/collections/{uuid4().hex}/answer", json={"query": "Where?", "stream": True}
    )

    assert problem(response) == (404, "collection_not_found")


@pytest.mark.parametrize("route", ["search", "answer"])
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"query": ""}, 422, "invalid_request"),
        ({"query": " \n"}, 422, "invalid_request"),
        ({"query": "x" * 100_000}, 422, "invalid_request"),
        ({"query": "a\u0000b"}, 422, "invalid_request"),
        ({}, 422, "invalid_request"),
        ({"query": "q", "limit": 0}, 422, "invalid_request"),
        ({"query": "q", "limit": 201}, 422, "invalid_request"),
        ({"query": "q", "mode": "magic"}, 422, "invalid_request"),
        ({"query": "q", "top_k": 3}, 422, "invalid_request"),
        ({"query": "q", "filter": {}}, 422, "invalid_filter"),
        ({"query": "q", "filter": {"type": "eq", "key": "colour", "value": 1}}, 422, "invalid_filter"),
        ({"query": "q", "filter": {"type": "eq", "key": "year", "value": "x"}}, 422, "invalid_filter"),
    ],
)
async def test_a_faulty_query_is_refused(
    service: Running, path: str, *, route: str, body: dict[str, Any], status: int, code: str
) -> None:
    response = await service.http.post(f"{path}/{route}", json=body)

    assert problem(response) == (status, code)
    assert "x" * 100 not in response.text


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "soon", "9" * 40])
async def test_a_faulty_deadline_is_refused(service: Running, path: str, given: str) -> None:
    headers = {"X-Request-Deadline-Ms": given}

    response = await service.http.post(f"{path}/search", json={"query": "water"}, headers=headers)

    assert problem(response) == (422, "invalid_request")


async def test_a_deadline_that_no_dependency_can_meet_is_exceeded_not_an_outage(service: Running, path: str) -> None:
    headers = {"X-Request-Deadline-Ms": "1"}

    response = await service.http.post(f"{path}/search", json={"query": "water"}, headers=headers)

    assert problem(response) == (504, "deadline_exceeded")


async def test_a_deadline_ends_a_generation_that_takes_too_long(service: Running, path: str) -> None:
    service.generator.gate = asyncio.Event()
    headers = {"X-Request-Deadline-Ms": "500"}

    response = await service.http.post(f"{path}/answer", json={"query": "When does water boil?"}, headers=headers)

    assert (response.status_code, response.json()["degraded"]) == (200, ["generation"])
    assert service.generator.cancelled.is_set()


@pytest.mark.parametrize("route", ["search", "answer", "documents"])
async def test_a_collection_of_another_model_is_a_conflict(service: Running, route: str) -> None:
    name = uuid4().hex
    await service.services.catalog.create_collection(
        Scope(), name, embedding_model="another-model", spec=CollectionSpec(dimension=8)
    )
    body = {"text": "x", "source": "a"} if route == "documents" else {"query": "x"}

    response = await service.http.post(f"/v1/collections/{name}/{route}", json=body)

    assert problem(response) == (409, "model_mismatch")


async def test_a_replica_of_the_request_id_comes_back_in_body_and_header(service: Running, path: str) -> None:
    response = await service.http.post(f"{path}/search", json={"query": "water"}, headers={"X-Request-Id": "abc"})

    assert (response.headers["x-request-id"], response.json()["request_id"]) == ("abc", "abc")


async def test_a_service_that_stops_ends_its_streams_with_an_error_event(start: Start, path: str) -> None:
    service = await start(drain_timeout=0.2)
    service.generator.gate = asyncio.Event()
    body = {"query": "When does water boil?", "stream": True}

    async with service.http.stream("POST", f"{path}/answer", json=body) as response:
        await service.generator.started.wait()
        service.stop.set()
        streamed = [event async for event in events(response)]

    assert (streamed[0][0], streamed[-1][0]) == ("hits", "error")
    assert streamed[-1][1]["code"] == "capacity"


async def test_a_service_that_stops_ends_other_requests_with_a_problem(start: Start, path: str) -> None:
    service = await start(drain_timeout=0.2)
    service.generator.gate = asyncio.Event()
    asking = asyncio.create_task(service.http.post(f"{path}/answer", json={"query": "When does water boil?"}))
    await service.generator.started.wait()

    service.stop.set()

    response = await asking
    assert problem(response) == (503, "capacity")
    assert "retry-after" in response.headers


async def test_a_service_that_stops_finishes_what_ends_in_time(start: Start, path: str) -> None:
    service = await start(drain_timeout=10.0)
    service.generator.gate = asyncio.Event()
    asking = asyncio.create_task(service.http.post(f"{path}/answer", json={"query": "When does water boil?"}))
    await service.generator.started.wait()

    service.stop.set()
    service.generator.gate.set()

    response = await asking
    assert (response.status_code, response.json()["text"]) == (200, "Water boils at 100 degrees [1].")
