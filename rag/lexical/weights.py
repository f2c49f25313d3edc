"""BM25 split in two, so that its score is a dot product: the document carries tf, the query carries idf."""

from __future__ import annotations

from collections.abc import Mapping
from math import log1p

from rag.core.types import Terms
from rag.lexical.analyzer import TermCounts

SATURATION = 1.2
LENGTH_SHARE = 0.75


def document_weights(terms: TermCounts, *, average_length: float) -> Terms:
    """BM25's tf part of each term; without an average (0) the text counts as one of average length."""
    relative = terms.length / average_length if average_length > 0 else 1.0
    norm = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * relative)
    return {term: count * (SATURATION + 1) / (count + norm) for term, count in terms.counts.items()}


def query_weights(terms: TermCounts, *, chunks: int, document_counts: Mapping[int, int]) -> Terms:
    """BM25's idf times the query's own tf; terms that no chunk holds are left out.

    ``document_counts`` gives the number of chunks, of ``chunks`` in all, that hold a term.
    """
    weights = {}
    for term, count in terms.counts.items():
        holding = min(document_counts.get(term, 0), chunks)
        if holding > 0:
            weights[term] = count * log1p((chunks - holding + 0.5) / (holding + 0.5))
    return weights
