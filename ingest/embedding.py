"""Texts of documents through the shared embedder: in bounded batches, with bulk priority, checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rag.core.errors import EmbeddingError, IngestError
from rag.core.ports import Embedder
from rag.core.types import Priority, Vectors
from rag.embedding.vectors import checked_vectors

EMBED_BATCH = 64
"""Texts embedded by one call."""


async def embed_documents(embedder: Embedder, texts: Sequence[str], *, dimension: int) -> Vectors:
    """One vector of unit length a text, shape ``(len(texts), dimension)``.

    Raises what the embedder raises, and ``IngestError`` with reason ``embedding_invalid`` where it gives
    anything but one finite, non-zero vector of ``dimension`` numbers for each text.
    """
    parts = [np.empty((0, dimension), dtype=np.float32)]
    for first in range(0, len(texts), EMBED_BATCH):
        batch = texts[first : first + EMBED_BATCH]
        raw = await embedder.embed(batch, kind="document", priority=Priority.BULK)
        parts.append(_checked(raw, rows=len(batch), dimension=dimension))
    return np.concatenate(parts)


def _checked(raw: Vectors, *, rows: int, dimension: int) -> Vectors:
    try:
        return checked_vectors(raw, rows=rows, dimension=dimension)
    except EmbeddingError as error:
        raise IngestError(error.message, code="embedding_invalid") from error
