"""The model host answers in raw numbers, refuses what it cannot serve, and drops the work of clients that left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from rag.core.errors import CapacityError
from rag.embedding.hashing import HashEmbedder
from rag.embedding.host import MAX_BODY_BYTES, MAX_TEXTS, create_model_host


class LengthScorer:
    model = "length"
    languages = frozenset({"*"})
    ready = True
    error: BaseException | None = None

    async def score(self, query: str, texts: Sequence[str]) -> np.ndarray:
        return np.array([len(text) - len(query) for text in texts], dtype=np.float32)


class FullEmbedder(HashEmbedder):
    async def embed(self, texts: Sequence[str], **rest: Any) -> np.ndarray:
        raise CapacityError("too much work waits", retry_after=1.5)


class EndlessEmbedder(HashEmbedder):
    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def embed(self, texts: Sequence[str], **rest: Any) -> np.ndarray:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        raise AssertionError


def client_of(embedder: HashEmbedder, scorer: LengthScorer | None = None) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_model_host(embedder, scorer))
    return httpx.AsyncClient(transport=transport, base_url="http://models")


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(HashEmbedder(8), LengthScorer()) as client:
        yield client


async def test_vectors_come_as_rows_of_little_endian_float32(client: httpx.AsyncClient) -> None:
    reply = await client.post("/embed", json={"texts": ["ships", "船"], "kind": "document", "priority": "bulk"})

    expected = await HashEmbedder(8).embed(["ships", "船"], kind="document")
    assert (reply.headers["x-rows"], reply.headers["x-dimension"]) == ("2", "8")
    assert np.array_equal(np.frombuffer(reply.content, dtype="<f4").reshape(2, 8), expected)


async def test_scores_come_as_raw_logits(client: httpx.AsyncClient) -> None:
    reply = await client.post("/score", json={"query": "ab", "texts": ["a", "abcd"]})

    assert np.frombuffer(reply.content, dtype="<f4").tolist() == [-1.0, 2.0]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        pytest.param("/embed", b"{", 422, "invalid_request", id="no JSON"),
        pytest.param("/embed", b"[]", 422, "invalid_request", id="no object"),
        pytest.param("/embed", b'{"texts": "a", "kind": "query"}', 422, "invalid_request", id="texts no list"),
        pytest.param("/embed", b'{"texts": [1], "kind": "query"}', 422, "invalid_request", id="texts no strings"),
        pytest.param("/embed", b'{"texts": ["a"], "kind": []}', 422, "invalid_request", id="kind no string"),
        pytest.param("/embed", b'{"texts": ["a"]}', 422, "invalid_request", id="no kind"),
        pytest.param(
            "/embed", b'{"texts": ["a"], "kind": "query", "priority": "x"}', 422, "invalid_request", id="priority"
        ),
        pytest.param(
            "/embed", b'{"texts": ["a"], "kind": "query", "model": "other"}', 409, "model_mismatch", id="another model"
        ),
        pytest.param(
            "/embed",
            orjson.dumps({"texts": [""] * (MAX_TEXTS + 1), "kind": "query"}),
            422,
            "invalid_request",
            id="too many texts",
        ),
        pytest.param("/embed", b" " * (MAX_BODY_BYTES + 1), 413, "too_large", id="too many bytes"),
        pytest.param("/score", b'{"texts": ["a"]}', 422, "invalid_request", id="no query"),
    ],
)
async def test_a_request_that_cannot_be_served_gets_a_problem_with_a_code(
    client: httpx.AsyncClient, path: str, body: bytes, status: int, code: str
) -> None:
    reply = await client.post(path, content=body)

    assert reply.headers["content-type"] == "application/problem+json"
    assert (reply.status_code, reply.json()["code"]) == (status, code)


async def test_a_full_queue_says_when_to_come_back() -> None:
    async with client_of(FullEmbedder(8)) as client:
        reply = await client.post("/embed", json={"texts": ["a"], "kind": "query"})

    assert reply.status_code == 503
    assert reply.json()["code"] == "capacity"
    assert float(reply.headers["retry-after"]) == 1.5


async def test_a_host_without_a_reranker_says_so() -> None:
    async with client_of(HashEmbedder(8)) as client:
        reply = await client.post("/score", json={"query": "a", "texts": ["b"]})

    assert (reply.status_code, reply.json()["code"]) == (503, "rerank_unavailable")


async def test_health_names_each_model_and_is_503_until_all_are_loaded() -> None:
    scorer = LengthScorer()
    async with client_of(HashEmbedder(8), scorer) as client:
        ready = await client.get("/healthz")
        scorer.ready = False
        loading = await client.get("/healthz")
        scorer.error = OSError()
        failed = await client.get("/healthz")

    assert ready.status_code == 200
    assert ready.json()["embedding"] == {"model": "hash-8", "status": "ready"}
    assert (loading.status_code, loading.json()["rerank"]["status"]) == (503, "loading")
    assert failed.json()["rerank"]["status"] == "failed"


async def test_the_work_of_a_client_that_left_is_cancelled() -> None:
    embedder = EndlessEmbedder(8)
    body = orjson.dumps({"texts": ["a"], "kind": "query"})
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})
    scope = {"type": "http", "method": "POST", "path": "/embed", "headers": [], "query_string": b""}

    async def send(message: Any) -> None:
        del message

    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        tasks.create_task(create_model_host(embedder, None)(scope, incoming.get, send))
        await embedder.started.wait()
        incoming.put_nowait({"type": "http.disconnect"})
        await embedder.cancelled.wait()

    assert embedder.cancelled.is_set()
