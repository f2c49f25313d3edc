"""Values that cross the boundaries between parts.

Times are ``datetime`` in UTC, durations are seconds as ``float``, offsets are Unicode code points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias
from uuid import UUID, uuid5

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""Contiguous float32, shape ``(n, dimension)``."""
Vector: TypeAlias = NDArray[np.float32]
"""Contiguous float32, shape ``(dimension,)``."""
Terms: TypeAlias = Mapping[int, float]
"""Sparse lexical weights: unsigned 32-bit term id to weight."""
Scalar: TypeAlias = str | int | float | bool | datetime
MetadataValue: TypeAlias = Scalar | Sequence[str] | None
Metadata: TypeAlias = Mapping[str, MetadataValue]

ID_NAMESPACE = UUID("6f1c3f0a-6a55-5d0c-9d0e-1b7f3f4f6c11")
EVERY_LANGUAGE = "*"
DEFAULT_TENANT = "default"


class FieldType(StrEnum):
    """Declared type of a filterable metadata field."""

    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATETIME = "datetime"
    STRINGS = "strings"


class Metric(StrEnum):
    """How vectors are compared; every store returns scores where higher is better (L2 negated)."""

    COSINE = "cosine"
    DOT = "dot"
    L2 = "l2"


class Mode(StrEnum):
    """First-stage retrieval."""

    DENSE = "dense"
    LEXICAL = "lexical"
    HYBRID = "hybrid"


class Quality(StrEnum):
    """How much of a document was parsed."""

    FULL = "full"
    SUMMARY = "summary"
    FRAGMENT = "fragment"
    NO_TEXT = "no_text"


class DocumentState(StrEnum):
    """Where a document stands; a deleted document has no state, it is unknown."""

    QUEUED = "queued"
    RUNNING = "running"
    PUBLISHED = "published"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether nothing more happens without a new request."""
        return self not in (DocumentState.QUEUED, DocumentState.RUNNING)


class Feature(StrEnum):
    """What a store may lack; everything else in the port is required of each."""

    LEXICAL = "lexical"
    EXACT = "exact"
    QUANTIZATION = "quantization"


class Priority(StrEnum):
    """Who waits for a model: a person, or the ingest worker. Interactive work goes first."""

    INTERACTIVE = "interactive"
    BULK = "bulk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """On whose behalf a call is made; every store, cache, blob and catalog call takes one.

    ``groups`` are the caller's groups; ``None`` is the service itself, which sees all of the tenant.
    """

    tenant: str = DEFAULT_TENANT
    groups: frozenset[str] | None = frozenset()

    def as_service(self) -> Scope:
        """The same tenant without the limits of a caller's groups; for ingest and deletes."""
        return replace(self, groups=None)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A parsed piece with its layout; ``start``/``end`` are offsets into the parsed text."""

    start: int
    end: int
    headings: tuple[str, ...] = ()
    page: int | None = None
    kind: Literal["text", "table", "code"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseAttempt:
    """One try at parsing: which parser, in which tier, how long, with what outcome."""

    parser: str
    tier: int
    seconds: float
    outcome: Literal["ok", "timeout", "failed", "killed", "empty"]
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocument:
    """The text of a document, NFC, and where its blocks, headings and pages are."""

    text: str
    blocks: tuple[Block, ...]
    title: str | None = None
    quality: Quality = Quality.FULL
    attempts: tuple[ParseAttempt, ...] = ()
    encoding: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The unit embedded and retrieved: ``parsed.text[start:end] == text``."""

    index: int
    text: str
    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens counted by the generator."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of a streamed completion; the last one carries ``finish_reason`` and ``usage``."""

    text: str
    finish_reason: str | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A claim's anchor: ``quote`` is the text at [start, end) of the cited document's parsed text."""

    marker: int
    document: UUID
    source: str
    title: str | None
    page: int | None
    start: int
    end: int
    quote: str
    quality: Quality
    origin: Literal["model", "matched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A stage that does not apply to this query, and why; no error, cacheable."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search gives: hits best first, what failed, what did not apply, seconds by stage.

    ``shortfall`` is true when fewer hits than asked for were left after verification.
    """

    hits: tuple[Hit, ...]
    degraded: tuple[str, ...] = ()
    skipped: tuple[Skip, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    shortfall: bool = False
    epoch: int = 0
    documents: Mapping[UUID, DocumentLabel] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLabel:
    """What a reader is told of a document that a hit or citation names."""

    source: str
    title: str | None
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A finished answer with its evidence."""

    text: str
    citations: tuple[Citation, ...]
    search: SearchResult
    degraded: tuple[str, ...] = ()
    skipped: tuple[Skip, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    usage: Usage = Usage()
    invalid_markers: int = 0
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobRef:
    """A content-addressed blob: SHA-256 in hex and size in bytes."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatistics:
    """Lexical statistics of a physical collection: chunks, and analyzed terms in all of them."""

    chunks: int = 0
    total_terms: int = 0

    @property
    def average_length(self) -> float:
        """Mean terms a chunk; 0.0 while empty."""
        return self.total_terms / self.chunks if self.chunks else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionView:
    """A collection as the query and ingest paths see it, read in one round trip.

    ``physical`` names the live physical collection. ``document_counts`` answers the term ids asked for:
    the number of chunks that hold the term (absent = 0).
    """

    id: UUID
    name: str
    tenant: str
    physical: str
    embedding_model: str
    spec: CollectionSpec
    epoch: int
    statistics: IndexStatistics = IndexStatistics()
    document_counts: Mapping[int, int] = field(default_factory=dict)
    created_at: datetime | None = None
    documents: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentView:
    """A document as the API shows it; ``generation`` is the one being served (``None``: none yet)."""

    id: UUID
    collection: str
    source: str
    title: str | None
    media_type: str
    blob: BlobRef
    metadata: Metadata
    acl: tuple[str, ...]
    state: DocumentState
    stage: str | None
    quality: Quality | None
    generation: int | None
    attempt: int
    error_code: str | None
    error_message: str | None
    chunks: int
    characters: int
    encoding: str | None
    attempts: tuple[Mapping[str, Any], ...]
    created_at: datetime
    updated_at: datetime
    published_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a listing; ``next`` is the cursor to pass on, ``None`` at the end."""

    items: tuple[DocumentView, ...]
    next: str | None
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What an upload got: the document, and whether its bytes were already there."""

    document: DocumentView
    unchanged: bool
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A worker's right to process a document once: fenced by ``attempt`` and ``base_generation``.

    ``generation`` is new for every attempt; ``base_generation`` is what was served at the claim.
    """

    document: UUID
    scope: Scope
    collection: CollectionView
    attempt: int
    generation: int
    base_generation: int | None
    source: str
    media_type: str
    blob: BlobRef
    metadata: Metadata
    acl: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What a publish makes current: written chunks, their lexical statistics, the parsed text's blob."""

    attempt: Attempt
    chunks: int
    characters: int
    quality: Quality
    title: str | None
    text_blob: BlobRef | None
    encoding: str | None
    parse_attempts: tuple[ParseAttempt, ...]
    total_terms: int
    document_counts: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """Records of a superseded or deleted generation, to be removed from a store."""

    id: int
    tenant: str
    physical: str
    document: UUID | None
    generation: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job of the queue. ``stuck``: it says running, but its worker's heartbeat stopped."""

    id: int
    task: str
    status: str
    document: UUID | None
    attempts: int
    scheduled_at: datetime | None
    started_at: datetime | None
    stuck: bool
