"""What a vector store keeps, is asked for and gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid5

import numpy as np

from rag.core.types import FieldType, Metadata, Quality, Terms, Vector, Vectors

ID_NAMESPACE = UUID("6f1c3f0a-6a55-5d0c-9d0e-1b7f3f4f6c11")


class Metric(StrEnum):
    """How vectors are compared; every store returns scores where higher is better (L2 negated)."""

    COSINE = "cosine"
    DOT = "dot"
    L2 = "l2"


class Feature(StrEnum):
    """What a store may lack; everything else in the port is required of each."""

    LEXICAL = "lexical"
    EXACT = "exact"
    INDEX = "index"


class Quantization(StrEnum):
    """How a store keeps the vectors that it searches: as float32, as float16, or as scaled 8-bit integers."""

    NONE = "none"
    HALF = "half"
    INT8 = "int8"


@dataclass(frozen=True, slots=True, kw_only=True)
class HnswIndex:
    """HNSW build parameters under their usual names."""

    m: int = 16
    ef_construction: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSpec:
    """What a physical collection is made of; fixed once created."""

    dimension: int
    metric: Metric = Metric.COSINE
    index: HnswIndex = HnswIndex()
    filterable: Mapping[str, FieldType] = field(default_factory=dict)
    quantization: Quantization = Quantization.NONE

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON values."""
        return {
            "dimension": self.dimension,
            "metric": str(self.metric),
            "index": {"m": self.index.m, "ef_construction": self.index.ef_construction},
            "filterable": {name: str(kind) for name, kind in self.filterable.items()},
            "quantization": str(self.quantization),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> CollectionSpec:
        """The inverse of :meth:`to_json`."""
        return cls(
            dimension=stored["dimension"],
            metric=Metric(stored["metric"]),
            index=HnswIndex(**stored["index"]),
            filterable={name: FieldType(kind) for name, kind in stored["filterable"].items()},
            quantization=Quantization(stored.get("quantization", Quantization.NONE)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a store offers: ``features``, ``quantizations``, vectors of up to ``max_dimension``.

    ``reasons`` says of each feature and quantization that is not offered why it is not.
    """

    features: frozenset[Feature]
    quantizations: frozenset[Quantization] = frozenset({Quantization.NONE})
    max_dimension: int = 65_535
    reasons: Mapping[Feature | Quantization, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchParams:
    """Search-time knobs: HNSW's candidate list size, or an exact scan."""

    ef_search: int = 100
    exact: bool = False


def record_id(*, tenant: str, collection: str, document: UUID, generation: int, index: int) -> UUID:
    """The deterministic id of one chunk of one generation: UUIDv5, so that a retry repeats it.

    ``collection`` is the physical collection's name.
    """
    return uuid5(ID_NAMESPACE, "\0".join((tenant, collection, str(document), str(generation), str(index))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One row that a store keeps. ``acl`` empty: every group of the tenant may read it."""

    id: UUID
    vector: Vector
    terms: Terms
    text: str
    start: int
    end: int
    tenant: str
    document: UUID
    generation: int
    acl: tuple[str, ...] = ()
    index: int
    page: int | None = None
    headings: tuple[str, ...] = ()
    quality: Quality = Quality.FULL
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch:
    """Records in columns; row i of each column belongs together.

    ``vectors`` has shape ``(n, dimension)``. All rows belong to one tenant.
    """

    tenant: str
    ids: Sequence[UUID]
    vectors: Vectors
    terms: Sequence[Terms]
    texts: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]
    documents: Sequence[UUID]
    generations: Sequence[int]
    acls: Sequence[tuple[str, ...]]
    indexes: Sequence[int]
    pages: Sequence[int | None]
    headings: Sequence[tuple[str, ...]]
    qualities: Sequence[Quality]
    metadata: Sequence[Metadata]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, records: Sequence[Record]) -> RecordBatch:
        """Turn rows of one tenant into columns. Raises ``ValueError`` for none, or for several tenants."""
        tenants = {record.tenant for record in records}
        if len(tenants) != 1:
            raise ValueError("a batch holds the records of exactly one tenant")
        return cls(
            tenant=tenants.pop(),
            ids=[r.id for r in records],
            vectors=np.ascontiguousarray(np.stack([r.vector for r in records]), dtype=np.float32),
            terms=[r.terms for r in records],
            texts=[r.text for r in records],
            starts=[r.start for r in records],
            ends=[r.end for r in records],
            documents=[r.document for r in records],
            generations=[r.generation for r in records],
            acls=[r.acl for r in records],
            indexes=[r.index for r in records],
            pages=[r.page for r in records],
            headings=[r.headings for r in records],
            qualities=[r.quality for r in records],
            metadata=[r.metadata for r in records],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ByIds:
    """Selects records by id."""

    ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ByDocument:
    """Selects the records of a document: of one generation, or of all when it is ``None``."""

    document: UUID
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A record as found. Higher scores are better; ``score`` is the one that ordered the list.

    ``rerank_score`` is the cross-encoder's sigmoid in [0, 1], where it ran.
    """

    id: UUID
    score: float
    document: UUID
    generation: int
    index: int
    text: str
    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()
    quality: Quality = Quality.FULL
    metadata: Metadata = field(default_factory=dict)
    retrieval_score: float | None = None
    rerank_score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """Size of a physical collection. ``indexed`` rows are those the ANN index covers."""

    rows: int
    indexed: int
    bytes: int
