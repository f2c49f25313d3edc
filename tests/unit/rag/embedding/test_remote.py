"""The client of the model host tries again while the host restarts, and trusts no reply unchecked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from rag.core.errors import AnchorageError, CapacityError, EmbeddingError, InvalidRequestError, ModelMismatchError
from rag.embedding.remote import MAX_CHARACTERS, MAX_TEXTS, RemoteEmbedder, open_remote_embedder, sliced

Answer = Callable[[httpx.Request], httpx.Response]


def vectors(request: httpx.Request) -> httpx.Response:
    """Give each text the direction ``[its length, 1]``."""
    texts = orjson.loads(request.content)["texts"]
    rows = np.array([[len(text), 1.0] for text in texts], dtype="<f4")
    return httpx.Response(200, content=rows.tobytes())


def refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


def problem(status: int, code: str, **headers: str) -> Answer:
    return lambda _: httpx.Response(status, json={"code": code, "detail": code}, headers=headers)


class Script:
    """Answers each request with the next of its answers, then with the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers = list(answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(orjson.loads(request.content))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return answer(request)


def embedder_of(script: Script, *, timeout: float = 5.0) -> RemoteEmbedder:
    client = httpx.AsyncClient(transport=httpx.MockTransport(script), base_url="http://models")
    return RemoteEmbedder(client, model="m", dimension=2, timeout=timeout)


async def test_the_request_names_model_kind_and_texts() -> None:
    script = Script(vectors)

    await embedder_of(script).embed(["船"], kind="query")

    assert script.requests == [{"texts": ["船"], "kind": "query", "priority": "interactive", "model": "m"}]


async def test_a_host_that_comes_back_is_found_again() -> None:
    script = Script(refuse, refuse, vectors)

    result = await embedder_of(script).embed(["aa"], kind="document")

    assert result[0, 0] / result[0, 1] == pytest.approx(2)
    assert len(script.requests) == 3


async def test_a_busy_host_is_asked_again_as_it_says() -> None:
    script = Script(problem(503, "capacity", **{"retry-after": "0.01"}), problem(429, "overloaded"), vectors)

    result = await embedder_of(script).embed(["a"], kind="document")

    assert result.shape == (1, 2)


async def test_only_the_failed_slice_is_repeated() -> None:
    script = Script(vectors, refuse, vectors)
    texts = ["a" * (1 + number % 7) for number in range(MAX_TEXTS + 5)]

    result = await embedder_of(script).embed(texts, kind="document")

    assert [len(request["texts"]) for request in script.requests] == [MAX_TEXTS, 5, 5]
    assert result[:, 0] / result[:, 1] == pytest.approx([len(text) for text in texts])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(refuse, EmbeddingError, id="unreachable"),
        pytest.param(problem(503, "capacity", **{"retry-after": "60"}), CapacityError, id="busy for long"),
        pytest.param(problem(503, "embedding_unavailable"), EmbeddingError, id="model down"),
        pytest.param(problem(422, "invalid_request"), InvalidRequestError, id="refused"),
        pytest.param(problem(409, "model_mismatch"), ModelMismatchError, id="another model"),
        pytest.param(lambda _: httpx.Response(500, text="oops"), EmbeddingError, id="no problem document"),
        pytest.param(lambda _: httpx.Response(200, content=b"\0" * 12), EmbeddingError, id="wrong length"),
        pytest.param(
            lambda _: httpx.Response(200, content=np.array([1, np.nan], dtype="<f4").tobytes()),
            EmbeddingError,
            id="not finite",
        ),
    ],
)
async def test_what_goes_wrong_for_good_is_one_clear_error(answer: Answer, error: type[AnchorageError]) -> None:
    with pytest.raises(AnchorageError) as raised:
        await embedder_of(Script(answer), timeout=0.2).embed(["a"], kind="query")

    assert type(raised.value) is error


async def test_a_refusal_is_not_repeated() -> None:
    script = Script(problem(422, "invalid_request"))

    with pytest.raises(InvalidRequestError):
        await embedder_of(script).embed(["a"], kind="document")

    assert len(script.requests) == 1


async def test_no_texts_ask_nobody() -> None:
    script = Script(refuse)

    assert (await embedder_of(script).embed([], kind="document")).shape == (0, 2)
    assert script.requests == []


def test_slices_are_bounded_in_texts_and_characters_and_lose_nothing() -> None:
    texts = ["a" * MAX_CHARACTERS, "b" * (MAX_CHARACTERS + 1), *["c"] * (MAX_TEXTS + 1)]

    parts = list(sliced(texts))

    assert [len(part) for part in parts] == [1, 1, MAX_TEXTS, 1]
    assert [text for part in parts for text in part] == texts


async def test_exactly_one_address_is_needed() -> None:
    with pytest.raises(ValueError, match="one address"):
        async with open_remote_embedder(model="m", dimension=2):
            pass
