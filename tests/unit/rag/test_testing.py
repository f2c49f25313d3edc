"""The shipped fakes keep the contracts of the ports they stand for."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from uuid import UUID

import numpy as np
import pytest

from rag.core.answers import Message
from rag.core.errors import EmbeddingError
from rag.core.records import Hit
from rag.testing import FakeEmbedder, FakeGenerator, FakeReranker, ManualClock

QUESTION = [Message(role="user", content="Why?")]


async def test_the_embedder_gives_one_normalised_vector_a_text() -> None:
    embedder = FakeEmbedder(dimension=8)

    vectors = await embedder.embed(["one", "二", ""], kind="document")

    assert (vectors.shape, vectors.dtype) == ((3, 8), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
    assert (await embedder.embed([], kind="query")).shape == (0, 8)


async def test_a_fake_fails_while_its_error_is_set() -> None:
    embedder = FakeEmbedder()
    embedder.error = EmbeddingError()

    with pytest.raises(EmbeddingError):
        await embedder.embed(["one"], kind="query")


async def test_the_reranker_returns_the_same_hits_best_first() -> None:
    texts = ["xyz", "water boils"]
    hits = [
        Hit(id=UUID(int=n), score=0.0, document=UUID(int=n), generation=1, index=0, text=text, start=0, end=len(text))
        for n, text in enumerate(texts)
    ]

    ranked = await FakeReranker().rerank("water", hits)

    assert [hit.text for hit in ranked] == ["water boils", "xyz"]
    assert all(hit.score == hit.rerank_score for hit in ranked)


async def test_the_generator_speaks_its_script_and_counts() -> None:
    generator = FakeGenerator(["a", "bc"])

    deltas = [delta async for delta in generator.stream(QUESTION, max_tokens=9, temperature=0)]

    assert "".join(delta.text for delta in deltas) == "abc"
    assert (deltas[-1].finish_reason, deltas[-1].usage and deltas[-1].usage.completion_tokens) == ("stop", 3)
    assert not generator.cancelled.is_set()


async def test_the_generator_notices_that_its_stream_was_closed() -> None:
    generator = FakeGenerator(["a", "b"])
    generator.gate = asyncio.Event()

    async with aclosing(generator.stream(QUESTION, max_tokens=9, temperature=0)) as stream:
        await anext(stream)

    assert generator.cancelled.is_set()


def test_the_clock_moves_when_told() -> None:
    clock = ManualClock(5.0)

    clock.advance(2.5)

    assert clock() == 7.5
