"""Generated rows of a store: ids that tell their row, and batches from columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from uuid import UUID

import numpy as np

from benchmarks.countdown import Countdown
from rag.core.ports import VectorStore
from rag.core.records import RecordBatch
from rag.core.types import Metadata, Quality, Scope, Terms, Vectors

SCOPE = Scope()
CHUNKS = 100
"""Rows of one document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows in columns; row i has the id ``row_id(i)``. A column that is not given is empty in each row."""

    vectors: Vectors
    metadata: Sequence[Metadata] = ()
    texts: Sequence[str] = ()
    terms: Sequence[Terms] = ()

    def __len__(self) -> int:
        return len(self.vectors)

    def batch(self, first: int, last: int) -> RecordBatch:
        """The rows ``first`` to ``last - 1``."""
        numbers = range(first, min(last, len(self)))
        count = len(numbers)
        texts = self.texts[first:last] or [""] * count
        return RecordBatch(
            tenant=SCOPE.tenant,
            ids=[row_id(number) for number in numbers],
            vectors=np.ascontiguousarray(self.vectors[first:last], dtype=np.float32),
            terms=self.terms[first:last] or [{}] * count,
            texts=texts,
            starts=[0] * count,
            ends=[len(text) for text in texts],
            documents=[row_id(-1 - number // CHUNKS) for number in numbers],
            generations=[1] * count,
            acls=[()] * count,
            indexes=[number % CHUNKS for number in numbers],
            pages=[None] * count,
            headings=[()] * count,
            qualities=[Quality.FULL] * count,
            metadata=self.metadata[first:last] or [{}] * count,
        )

    def batches(self, size: int) -> Iterator[RecordBatch]:
        """All rows, ``size`` at a time."""
        for first in range(0, len(self), size):
            yield self.batch(first, first + size)


@dataclass(slots=True)
class Numbers:
    """Which row an id names."""

    count: int
    _by_id: dict[UUID, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_id = {row_id(number): number for number in range(self.count)}

    def of(self, ids: Sequence[UUID]) -> list[int]:
        """The rows of the ids."""
        return [self._by_id[id] for id in ids]


def row_id(number: int) -> UUID:
    """An id without order, as those of chunks are."""
    return UUID(bytes=blake2b(number.to_bytes(8, "big", signed=True), digest_size=16).digest())


async def load(store: VectorStore, collection: str, rows: Rows, *, label: str, size: int = 500) -> None:
    """Write all rows, showing how long it still takes."""
    countdown = Countdown(f"{label}: rows", len(rows))
    done = 0
    for batch in rows.batches(size):
        await store.upsert(collection, SCOPE.as_service(), batch)
        done += len(batch)
        countdown.show(done)
