"""The local scorer turns every failure of its model into a failure of the stage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from rag.batching import BatchLimits, open_batcher, open_lazy
from rag.core.errors import ConfigurationError, RerankError
from rerank.cross_encoder import Pair
from rerank.scorer import LocalScorer


class Letters:
    """Stands for a loaded cross-encoder: a pair's score is the length of its passage."""

    def __init__(self) -> None:
        self.seen: list[Pair] = []

    def pairs(self, query: str, passages: Sequence[str]) -> list[Pair]:
        return [Pair(query=query, passage=passage, tokens=len(passage)) for passage in passages]

    def score(self, batch: Sequence[Pair]) -> list[float]:
        self.seen.extend(batch)
        if any(pair.passage == "explode" for pair in batch):
            raise MemoryError
        return [float(len(pair.passage)) for pair in batch]


@asynccontextmanager
async def opened(model: Letters, *, queue: int = 100) -> AsyncIterator[LocalScorer]:
    async with (
        open_lazy(lambda: model, name="letters") as lazy,
        open_batcher(model.score, cost=lambda pair: pair.tokens, limits=BatchLimits(queue=queue)) as batcher,
    ):
        yield LocalScorer("letters", languages=frozenset({"*"}), encoder=lazy, batcher=batcher)  # type: ignore[arg-type]


async def test_each_passage_gets_its_own_score_in_order() -> None:
    async with opened(Letters()) as scorer:
        scores = await scorer.score("query", ["aaa", "a", "aa"])

    assert scores.tolist() == [3.0, 1.0, 2.0]
    assert scores.dtype == "float32"


async def test_no_passages_give_no_scores() -> None:
    async with opened(Letters()) as scorer:
        assert (await scorer.score("query", [])).shape == (0,)


async def test_nul_and_half_surrogates_reach_no_tokenizer() -> None:
    model = Letters()
    async with opened(model) as scorer:
        await scorer.score("a\0b", ["\ud800"])

    assert (model.seen[0].query, model.seen[0].passage) == ("a b", "?")


async def test_a_model_that_fails_is_a_rerank_error_and_works_on_afterwards() -> None:
    async with opened(Letters()) as scorer:
        with pytest.raises(RerankError, match="MemoryError"):
            await scorer.score("query", ["explode"])

        assert (await scorer.score("query", ["a"])).tolist() == [1.0]


async def test_a_full_queue_is_a_rerank_error_with_a_time_to_come_back() -> None:
    async with opened(Letters(), queue=1) as scorer:
        with pytest.raises(RerankError) as refused:
            await scorer.score("query", ["a", "b"])

    assert refused.value.retry_after is not None


async def test_a_model_that_cannot_be_loaded_says_why_on_use() -> None:
    def load() -> Letters:
        raise ConfigurationError("the weights are damaged")

    async with (
        open_lazy(load, name="letters") as lazy,
        open_batcher(Letters().score, cost=lambda pair: pair.tokens, limits=BatchLimits()) as batcher,
    ):
        scorer = LocalScorer("l", languages=frozenset(), encoder=lazy, batcher=batcher)  # type: ignore[arg-type]
        with pytest.raises(RerankError, match="the weights are damaged"):
            await scorer.score("query", ["a"])

        assert not scorer.ready
