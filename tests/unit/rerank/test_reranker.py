"""The reranker gives the same hits in a new order, or fails as a stage."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest

from rag.core.errors import RerankError
from rag.core.records import Hit
from rerank import CrossEncoderReranker


class Scripted:
    """Scores with the given logits."""

    model = "scripted"
    languages = frozenset({"en", "zh"})

    def __init__(self, *logits: float) -> None:
        self.logits = logits
        self.calls: list[tuple[str, tuple[str, ...]]] = []

    async def score(self, query: str, texts: Sequence[str]) -> np.ndarray:
        self.calls.append((query, tuple(texts)))
        return np.array(self.logits, dtype=np.float32)


def hit(number: int, score: float) -> Hit:
    return Hit(
        id=UUID(int=number), score=score, document=UUID(int=1), generation=1, index=0, text=f"text {number}",
        start=0, end=6,
    )  # fmt: skip


async def test_hits_are_ordered_by_the_mixed_score_and_keep_the_others() -> None:
    hits = [hit(1, 0.03), hit(2, 0.02), hit(3, 0.01)]

    ranked = await CrossEncoderReranker(Scripted(-2.0, 0.0, 6.0), weight=0.8).rerank("query", hits)

    assert [each.id.int for each in ranked] == [3, 2, 1]
    assert [each.score for each in ranked] == pytest.approx([0.8, 0.3, 0.2])
    assert [each.retrieval_score for each in ranked] == [0.01, 0.02, 0.03]
    assert ranked[1].rerank_score == 0.5


async def test_a_retrieval_score_that_a_hit_already_has_is_kept() -> None:
    scored = Hit(
        id=UUID(int=1), score=0.9, retrieval_score=0.4, document=UUID(int=1), generation=1, index=0, text="t",
        start=0, end=1,
    )  # fmt: skip

    ranked = await CrossEncoderReranker(Scripted(1.0)).rerank("query", [scored])

    assert ranked[0].retrieval_score == 0.4


async def test_ties_are_ordered_by_id() -> None:
    hits = [hit(3, 0.5), hit(1, 0.5), hit(2, 0.5)]

    ranked = await CrossEncoderReranker(Scripted(1.0, 1.0, 1.0)).rerank("query", hits)

    assert [each.id.int for each in ranked] == [1, 2, 3]


async def test_no_hits_ask_no_model() -> None:
    scorer = Scripted()

    assert await CrossEncoderReranker(scorer).rerank("query", []) == []
    assert scorer.calls == []


@pytest.mark.parametrize("logits", [(), (1.0,), (1.0, 2.0, 3.0), (1.0, float("nan")), (float("inf"), 0.0)])
async def test_a_malformed_reply_is_a_failure_of_the_stage(logits: tuple[float, ...]) -> None:
    with pytest.raises(RerankError):
        await CrossEncoderReranker(Scripted(*logits)).rerank("query", [hit(1, 0.2), hit(2, 0.1)])


def test_the_languages_are_the_scorers() -> None:
    assert CrossEncoderReranker(Scripted()).languages == {"en", "zh"}


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside_zero_to_one_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        CrossEncoderReranker(Scripted(), weight=weight)
