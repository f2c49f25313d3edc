"""What half precision cannot hold is refused, rather than kept as another vector."""

from __future__ import annotations

import numpy as np

from rag.core.errors import InvalidRequestError
from rag.core.records import Metric
from rag.core.types import Vectors
from stores.pgvector.tables import Tables
from stores.validation import check_vectors


def check_queries(tables: Tables, vectors: Vectors) -> Vectors:
    """Query vectors as float32 of shape ``(n, dimension)``; raises as ``upsert`` does."""
    queries = check_vectors(tables.spec, np.asarray(vectors, dtype=np.float32))
    check_halves(tables, queries)
    return queries


def check_halves(tables: Tables, vectors: Vectors) -> None:
    """Raises ``InvalidRequestError`` where half precision makes a vector infinite or, for cosine, zero."""
    if not tables.halved:
        return
    with np.errstate(over="ignore"):
        halves = vectors.astype(np.float16)
    if not np.isfinite(halves).all():
        raise InvalidRequestError("a vector holds a value beyond the range of half precision, ±65504")
    if tables.spec.metric is Metric.COSINE and not halves.any(axis=1).all():
        raise InvalidRequestError("a vector is zero in half precision, and has no direction to compare by cosine")
