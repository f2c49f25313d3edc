"""What the store asks of an engine: a server, the client's local mode, or the embedded one in its host process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from rag.core.records import Capabilities, CollectionSpec, StoreStats
from rag.core.types import Terms, Vector, Vectors

DENSE = "dense"
SPARSE = "terms"

Condition: TypeAlias = Mapping[str, Any]
"""A filter or one condition of it, as the REST API of Qdrant writes them."""
Payload: TypeAlias = Mapping[str, Any]
Scored: TypeAlias = tuple[float, Payload]
"""A point as a query finds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Points to write, in columns; ``vectors`` has shape ``(n, dimension)``, a point without terms has none."""

    ids: Sequence[UUID]
    vectors: Vectors
    terms: Sequence[Terms]
    payloads: Sequence[Payload]

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, first: int, last: int) -> Points:
        """The points ``first`` to ``last - 1``."""
        rows = slice(first, last)
        return Points(
            ids=self.ids[rows], vectors=self.vectors[rows], terms=self.terms[rows], payloads=self.payloads[rows]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A whole point, as a scroll gives it back."""

    payload: Payload
    vector: Vector | None = None
    terms: Terms = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One ranking: by ``vector``, or else by ``terms``."""

    vector: Vector | None = None
    terms: Terms = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard a dense query looks: HNSW's candidates, or all rows; ``rescore`` where vectors are quantized."""

    ef: int
    exact: bool = False
    rescore: bool = False


class Engine(Protocol):
    """Points in collections. Every call but ``create``, ``drop`` and ``ping`` may raise ``CollectionNotFoundError``.

    Scores come as Qdrant has them: the dot product, or the distance under L2.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What the engine offers."""
        ...

    async def create(self, collection: str, spec: CollectionSpec) -> bool:
        """Make the collection with its payload indexes; ``False`` where one of this name is there already."""
        ...

    async def drop(self, collection: str) -> None:
        """Drop; a missing one is a no-op."""
        ...

    async def spec(self, collection: str) -> CollectionSpec:
        """The spec it was made with."""
        ...

    async def upsert(self, collection: str, points: Points) -> None:
        """Write or replace; when it returns, the points are found and survive a crash of the engine's process."""
        ...

    async def set_payload(self, collection: str, condition: Condition, payload: Payload) -> None:
        """Replace the top-level keys of ``payload`` in the points that pass."""
        ...

    async def delete(self, collection: str, condition: Condition) -> None:
        """Delete the points that pass."""
        ...

    async def count(self, collection: str, condition: Condition) -> int:
        """How many points pass, exactly."""
        ...

    async def scroll(
        self, collection: str, condition: Condition, *, after: UUID | None, limit: int
    ) -> tuple[list[Found], UUID | None]:
        """Up to ``limit`` points with their vectors in order of point id, from ``after`` on, and where to go on."""
        ...

    async def query(
        self, collection: str, queries: Sequence[Query], *, condition: Condition, limit: int, effort: Effort
    ) -> list[list[Scored]]:
        """The best ``limit`` points of each query, in one round trip; without vectors."""
        ...

    async def wait_indexed(self, collection: str, *, timeout: float) -> None:
        """Return when the index covers all rows; raises ``StoreError`` after ``timeout`` seconds."""
        ...

    async def stats(self, collection: str) -> StoreStats:
        """Rows, indexed rows, bytes."""
        ...

    async def ping(self) -> None:
        """Raises ``StoreError`` when the engine does not answer."""
        ...
