"""The local embedder checks what goes into its model and what comes out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest

from rag.batching import BatchLimits, open_batcher, open_lazy
from rag.core.errors import ConfigurationError, EmbeddingError, InvalidRequestError
from rag.core.types import Priority
from rag.embedding.encoder import Text
from rag.embedding.local import LocalEmbedder, open_local_embedder
from rag.models.spec import Precision


class Letters:
    """Stands for a loaded model: counts a text's characters as tokens and gives ``[length, 1]``."""

    window = 10
    dimension = 2

    def __init__(self, *, broken: float | None = None) -> None:
        self.seen: list[Text] = []
        self._broken = broken

    def count(self, texts: Sequence[str], kind: str) -> list[int]:
        return [len(text) for text in texts]

    def encode(self, batch: Sequence[Text]) -> list[np.ndarray]:
        self.seen.extend(batch)
        if any(text.text == "explode" for text in batch):
            raise MemoryError
        first = [float(text.tokens) if self._broken is None else self._broken for text in batch]
        return [np.array([value, 1.0], dtype=np.float32) for value in first]


@asynccontextmanager
async def opened(model: Letters, *, queue: int = 100, dimension: int | None = 2) -> AsyncIterator[LocalEmbedder]:
    limits = BatchLimits(queue=queue)
    async with (
        open_lazy(lambda: model, name="letters") as lazy,
        open_batcher(model.encode, cost=lambda text: text.tokens, limits=limits) as batcher,
    ):
        yield LocalEmbedder("letters", dimension=dimension, encoder=lazy, batcher=batcher)  # type: ignore[arg-type]


async def test_each_text_gets_its_own_normalised_vector_in_order() -> None:
    async with opened(Letters()) as embedder:
        vectors = await embedder.embed(["aaa", "a", "aaaa"], kind="document")

    assert vectors[:, 0] / vectors[:, 1] == pytest.approx([3, 1, 4])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0)
    assert vectors.dtype == np.float32


async def test_no_texts_give_no_rows() -> None:
    async with opened(Letters()) as embedder:
        assert (await embedder.embed([], kind="document")).shape == (0, 2)


async def test_more_texts_than_the_queue_holds_are_embedded_in_slices() -> None:
    async with opened(Letters(), queue=4) as embedder:
        vectors = await embedder.embed(["a" * (1 + n % 9) for n in range(30)], kind="document", priority=Priority.BULK)

    assert vectors[:, 0] / vectors[:, 1] == pytest.approx([1 + n % 9 for n in range(30)])


async def test_a_document_over_the_window_is_refused_before_any_work() -> None:
    model = Letters()
    async with opened(model) as embedder:
        with pytest.raises(InvalidRequestError, match="text 1 has 11 tokens"):
            await embedder.embed(["fine", "a" * 11], kind="document")

    assert model.seen == []


async def test_a_query_over_the_window_is_cut_and_counts_as_the_window() -> None:
    model = Letters()
    async with opened(model) as embedder:
        await embedder.embed(["a" * 11], kind="query")

    assert model.seen[0].tokens == 10


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
async def test_a_model_that_gives_numbers_that_are_not_finite_is_an_error(value: float) -> None:
    async with opened(Letters(broken=value)) as embedder:
        with pytest.raises(EmbeddingError, match="not finite"):
            await embedder.embed(["a"], kind="query")


async def test_a_model_that_fails_is_an_embedding_error_and_works_on_afterwards() -> None:
    async with opened(Letters()) as embedder:
        with pytest.raises(EmbeddingError, match="MemoryError"):
            await embedder.embed(["explode"], kind="document")

        assert (await embedder.embed(["a"], kind="document")).shape == (1, 2)


async def test_a_model_of_another_dimension_than_its_files_say_is_an_error() -> None:
    async with opened(Letters(), dimension=3) as embedder:
        with pytest.raises(EmbeddingError, match="its files say 3"):
            await embedder.embed(["a"], kind="query")


async def test_a_model_that_cannot_be_loaded_opens_and_says_why_on_use() -> None:
    def load() -> Letters:
        raise ConfigurationError("the weights are damaged")

    async with (
        open_lazy(load, name="letters") as lazy,
        open_batcher(Letters().encode, cost=lambda text: text.tokens, limits=BatchLimits()) as batcher,
    ):
        embedder = LocalEmbedder("letters", dimension=2, encoder=lazy, batcher=batcher)  # type: ignore[arg-type]
        with pytest.raises(EmbeddingError, match="the weights are damaged"):
            await embedder.wait_ready()

        assert not embedder.ready
        assert isinstance(embedder.error, ConfigurationError)


async def test_a_hash_name_opens_the_hash_embedder_without_any_folder() -> None:
    async with open_local_embedder("nowhere", name="hash-16", precision=Precision.FLOAT32) as embedder:
        await embedder.wait_ready()
        vectors = await embedder.embed(["words"], kind="query")

    assert embedder.ready
    assert embedder.model == "hash-16"
    assert vectors.shape == (1, 16)
