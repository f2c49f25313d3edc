"""What a benchmark asks of an engine that is used by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rag.core.records import RecordBatch
from rag.core.types import Vector, Vectors

COLLECTION = "byhand"
FIELD = "part"
"""The one filterable field, an integer."""


class Client(Protocol):
    """A collection ``COLLECTION`` with the field ``FIELD``; every call returns when it is done."""

    def load(self, batch: RecordBatch) -> None:
        """Write or replace the rows, as durable and visible as the store's upsert leaves them."""
        ...

    def settle(self) -> None:
        """Have the index cover all rows."""
        ...

    def search(self, vector: Vector, *, limit: int, below: int | None) -> int:
        """Read the nearest rows, of those whose field is ``below`` the number; how many came."""
        ...

    def search_all(self, vectors: Vectors, *, limit: int, below: int | None, workers: int) -> Sequence[int]:
        """The same for each vector, ``workers`` at a time."""
        ...
