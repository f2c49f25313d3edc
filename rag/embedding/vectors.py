"""What every embedder checks before it gives vectors away, and how they travel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag.core.errors import EmbeddingError, InvalidRequestError
from rag.core.types import Vectors

WIRE_TYPE = np.dtype("<f4")
"""Vectors and scores cross processes as little-endian float32."""


def checked_texts(texts: Sequence[str]) -> list[str]:
    """The texts with NUL as a space (C code behind a tokenizer may end a text at NUL).

    Raises ``InvalidRequestError`` for a text that is not valid Unicode, such as half a surrogate pair.
    """
    for position, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequestError(f"text {position} is not valid Unicode") from error
    return [text.replace("\0", " ") for text in texts]


def checked_vectors(raw: NDArray[np.floating], *, rows: int, dimension: int) -> Vectors:
    """``raw`` as contiguous float32 of unit length, shape ``(rows, dimension)``.

    Normalised here in float32 since a model that computes in 16 bits normalises only to about three digits.
    Raises ``EmbeddingError`` for another shape, a value that is not finite, or a zero vector.
    """
    if raw.shape != (rows, dimension):
        raise EmbeddingError(f"the model gave shape {raw.shape} instead of {(rows, dimension)}")
    vectors: Vectors = np.array(raw, dtype=np.float32, order="C")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or not norms.all():
        raise EmbeddingError("the model gave a vector that is zero or not finite")
    np.divide(vectors, norms, out=vectors)
    return vectors


def from_wire(body: bytes, *, rows: int, dimension: int) -> Vectors:
    """Vectors from the body of a reply; raises ``EmbeddingError`` as :func:`checked_vectors` does."""
    if len(body) != rows * dimension * WIRE_TYPE.itemsize:
        raise EmbeddingError(f"the model host sent {len(body)} bytes for {rows} vectors of {dimension}")
    raw = np.frombuffer(body, dtype=WIRE_TYPE).astype(np.float32)
    return checked_vectors(raw.reshape(rows, dimension), rows=rows, dimension=dimension)
