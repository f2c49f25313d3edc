"""What the catalog keeps of collections, documents and jobs, as its callers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from rag.core.records import CollectionSpec
from rag.core.types import DocumentState, Metadata, ParseAttempt, Quality, Scope


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
class PromotionPolicy:
    """When degraded documents are parsed again: after ``pause`` seconds, doubled each time, ``attempts`` times."""

    pause: float = 30.0
    attempts: int = 5

    def delay(self, done: int) -> float | None:
        """Seconds before the next one when ``done`` were made; ``None``: there is none."""
        return self.pause * 2**done if done < self.attempts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogLimits:
    """How many documents, and how many bytes of them, may wait before uploads are refused."""

    documents: int = 100_000
    bytes: int = 16 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionView:
    """Full parses of a degraded document in the background: those begun, whether one runs, when the next is due.

    ``next_at`` is ``None`` when there is no further one.
    """

    attempts: int
    running: bool
    next_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentView:
    """A document as the API shows it; ``generation`` is the one being served (``None``: none yet).

    ``error_code`` of a published document says what kept it from being full; ``promotion`` is there while it is not.
    """

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
    structure: Mapping[str, Any] = field(default_factory=dict)
    promotion: PromotionView | None = None


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

    ``generation`` is new for every attempt; ``base_generation`` is what was served at the claim. A ``promotion``
    works on a document that stays published. ``fresh``: results kept of equal bytes are not to be taken.
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
    promotion: bool = False
    fresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What a publish makes current: written chunks, their lexical statistics, the parsed text's blob.

    ``fault`` is the code that kept a degraded document from being full.
    """

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
    fault: str | None = None
    structure: Mapping[str, Any] = field(default_factory=dict)


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
