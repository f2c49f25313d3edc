"""Cross-encoders and what is made of their scores: the order of hits."""

from __future__ import annotations

from rerank.guarded import GuardedReranker
from rerank.mixing import mixed_scores
from rerank.reranker import CrossEncoderReranker
from rerank.scorer import LocalScorer, open_local_scorer

__all__ = ["CrossEncoderReranker", "GuardedReranker", "LocalScorer", "mixed_scores", "open_local_scorer"]
