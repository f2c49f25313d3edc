"""An embedder without a model, for tests and benchmarks: it finds only equal words.

Each analyzed word adds plus or minus its weight to one place of the vector, both chosen by the word's stable
hash. The same text gives the same vector in every process, in microseconds.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rag.core.types import Priority, Vector, Vectors
from rag.embedding.vectors import checked_texts, checked_vectors
from rag.lexical import count_terms

_NAME = re.compile(r"hash-([1-9][0-9]{0,4})")
_TOKEN = re.compile(r"[A-Za-z0-9]{1,8}|\S")
_INLINE_CHARACTERS = 4096


def hash_dimension(name: str) -> int | None:
    """The dimension that a model name such as ``hash-384`` asks for; ``None`` for any other name."""
    match = _NAME.fullmatch(name)
    return int(match.group(1)) if match else None


class HashEmbedder:
    """Feature hashing of analyzed words; always ready."""

    ready = True
    error = None

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension

    @property
    def model(self) -> str:
        """``hash-`` and the dimension."""
        return f"hash-{self._dimension}"

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    async def wait_ready(self) -> None:
        """Return at once."""

    async def embed(
        self,
        texts: Sequence[str],
        *,
        kind: Literal["query", "document"],
        priority: Priority = Priority.INTERACTIVE,
    ) -> Vectors:
        """One normalised vector a text; ``kind`` and ``priority`` change nothing."""
        del kind, priority
        clean = checked_texts(texts)
        if sum(map(len, clean)) <= _INLINE_CHARACTERS:
            return self._embed(clean)
        return await asyncio.to_thread(self._embed, clean)

    def _embed(self, texts: Sequence[str]) -> Vectors:
        raw = np.empty((len(texts), self._dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            raw[row] = self._vector(text)
        return checked_vectors(raw, rows=len(texts), dimension=self._dimension)

    def _vector(self, text: str) -> Vector:
        vector = np.zeros(self._dimension, dtype=np.float32)
        for term, count in count_terms(text).counts.items():
            sign = 1.0 if term & 1 else -1.0
            vector[(term >> 1) % self._dimension] += sign * (1.0 + math.log(count))
        if not vector.any():
            vector[0] = 1.0
        return vector


class WordTokenizer:
    """Pieces of up to eight ASCII letters or digits, else single characters: what chunking needs of a tokenizer."""

    def spans(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """As the port says."""
        return [
            np.array([match.span() for match in _TOKEN.finditer(text)], dtype=np.int64).reshape(-1, 2) for text in texts
        ]
