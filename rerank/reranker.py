"""A cross-encoder as the reranker of the query path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rag.core.errors import RerankError
from rag.core.ports import PairScorer
from rag.core.records import Hit
from rerank.mixing import mixed_scores, sigmoid


class CrossEncoderReranker:
    """Orders hits by a mix of a cross-encoder's score and their own; ``weight`` is the cross-encoder's share.

    The mix is needed: alone, a small cross-encoder is below a fused first stage on some collections.
    """

    def __init__(self, scorer: PairScorer, *, weight: float = 0.5) -> None:
        if not 0.0 <= weight <= 1.0:
            raise ValueError("the cross-encoder's share is between 0 and 1")
        self._scorer = scorer
        self._weight = weight

    @property
    def languages(self) -> frozenset[str]:
        """ISO 639-1 codes, or ``*`` for any."""
        return self._scorer.languages

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """The same hits, best first, ties by id; none for none.

        ``score`` is the mixed score in [0, 1], ``rerank_score`` the sigmoid of the logit, ``retrieval_score``
        what the first stage gave. Raises ``RerankError``, also for a reply of another length or one that holds
        a value that is not finite: such a reply would look like an order.
        """
        if not hits:
            return []
        logits = np.asarray(await self._scorer.score(query, [hit.text for hit in hits]))
        if logits.shape != (len(hits),) or not np.isfinite(logits).all():
            raise RerankError(f"the cross-encoder gave no usable score for each of {len(hits)} hits")
        first_stage = np.array([hit.score for hit in hits], dtype=np.float64)
        mixed = mixed_scores(logits, first_stage, weight=self._weight)
        scored = [
            _scored(hit, score=float(score), rerank_score=float(probability))
            for hit, score, probability in zip(hits, mixed, sigmoid(logits), strict=True)
        ]
        return sorted(scored, key=lambda hit: (-hit.score, hit.id))


def _scored(hit: Hit, *, score: float, rerank_score: float) -> Hit:
    retrieval_score = hit.score if hit.retrieval_score is None else hit.retrieval_score
    return replace(hit, score=score, rerank_score=rerank_score, retrieval_score=retrieval_score)
