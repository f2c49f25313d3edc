"""The seams between parts. Each method's docstring is its contract; callers ask for the narrowest port.

Cancellation: a cancelled call leaves the object usable and raises ``CancelledError`` unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from rag.core.answers import Delta, DocumentLabel, Message
from rag.core.catalog import Attempt, BlobRef, CollectionView, Garbage, Publication
from rag.core.filters import Filter
from rag.core.records import (
    ByDocument,
    ByIds,
    Capabilities,
    CollectionSpec,
    Hit,
    Record,
    RecordBatch,
    SearchParams,
    StoreStats,
)
from rag.core.types import Chunk, Metadata, ParsedDocument, Priority, Scope, Terms, Vector, Vectors

Selector: TypeAlias = ByIds | ByDocument | Filter


class Searcher(Protocol):
    """First-stage retrieval. ``collection`` is a physical name; unknown: ``CollectionNotFoundError``.

    All three: best first, ties by id, at most ``limit`` hits and exactly ``limit`` where so many records
    of the scope pass the filter. The caller's filter is AND-ed below the scope.
    """

    async def search(
        self,
        collection: str,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        filter: Filter | None = None,
        params: SearchParams = SearchParams(),  # noqa: B008  frozen
    ) -> list[Hit]:
        """Nearest by vector. Cosine in [-1, 1], dot as it is, L2 as minus the distance."""
        ...

    async def search_many(
        self,
        collection: str,
        scope: Scope,
        vectors: Vectors,
        *,
        limit: int,
        filter: Filter | None = None,
        params: SearchParams = SearchParams(),  # noqa: B008  frozen
    ) -> list[list[Hit]]:
        """What :meth:`search` gives for each row of ``vectors``, shape ``(n, dimension)``, in order."""
        ...

    async def lexical_search(
        self,
        collection: str,
        scope: Scope,
        terms: Terms,
        *,
        limit: int,
        filter: Filter | None = None,
    ) -> list[Hit]:
        """Best by sparse dot product with ``terms``; records that share no term are not returned.

        The one case in which fewer than ``limit`` hits are right although more records pass the filter.
        """
        ...

    async def hybrid_search(
        self,
        collection: str,
        scope: Scope,
        vector: Vector,
        terms: Terms,
        *,
        limit: int,
        filter: Filter | None = None,
        params: SearchParams = SearchParams(),  # noqa: B008  frozen
    ) -> list[Hit]:
        """Both legs fused by reciprocal rank (k = 60, ties by id); an empty leg is legal."""
        ...


class VectorStore(Searcher, Protocol):
    """An index over records: never the authority.

    A search that started after ``upsert`` returned sees its records; writes are idempotent.
    """

    @property
    def kind(self) -> str:
        """The name under which it is installed, such as ``pgvector``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it offers beyond the required, and why not where it does not."""
        ...

    @property
    def exact_fallbacks(self) -> int:
        """Searches so far whose index found fewer rows than were asked for, so that the rows were compared."""
        ...

    async def create_collection(self, collection: str, spec: CollectionSpec) -> None:
        """Create; the same spec again is a no-op, another one raises ``CollectionExistsError``.

        Raises ``InvalidRequestError`` for a dimension or quantization that is not among the ``capabilities``.
        """
        ...

    async def drop_collection(self, collection: str) -> None:
        """Drop; a missing one is a no-op."""
        ...

    async def describe_collection(self, collection: str) -> CollectionSpec:
        """The spec it was created with."""
        ...

    async def upsert(self, collection: str, scope: Scope, batch: RecordBatch) -> None:
        """Write or replace by id; an empty batch is a no-op. All or nothing as a retry sees it.

        Raises ``DimensionMismatchError``, or ``InvalidRequestError`` for a non-finite vector, a zero vector
        under cosine, or a batch of another tenant than the scope's. Checked before anything is written.
        """
        ...

    async def update_metadata(self, collection: str, scope: Scope, document: UUID, metadata: Metadata) -> None:
        """Replace the user metadata of all records of a document; a missing document is a no-op."""
        ...

    async def get(self, collection: str, scope: Scope, ids: Sequence[UUID]) -> list[Record]:
        """Records in the order asked for; missing ones are left out."""
        ...

    async def delete(self, collection: str, scope: Scope, selector: Selector) -> None:
        """Delete what the selector names within the scope; missing ones are a no-op."""
        ...

    async def count(self, collection: str, scope: Scope, selector: Selector | None = None) -> int:
        """Exact number of records of the scope that the selector names, or of all of them."""
        ...

    def scroll(
        self, collection: str, scope: Scope, *, selector: Selector | None = None, batch_size: int = 256
    ) -> AsyncIterator[list[Record]]:
        """Each record once, ordered by id."""
        ...

    async def wait_indexed(self, collection: str, *, timeout: float) -> None:
        """Return when the ANN index covers all rows; raises ``StoreError`` after ``timeout`` seconds."""
        ...

    async def stats(self, collection: str) -> StoreStats:
        """Rows, indexed rows, bytes."""
        ...

    async def ping(self) -> None:
        """Raises ``StoreError`` when the store does not answer."""
        ...


StoreFactory: TypeAlias = Callable[[Mapping[str, Any]], AbstractAsyncContextManager[VectorStore]]


class Embedder(Protocol):
    """Turns text into vectors."""

    @property
    def model(self) -> str:
        """Name of the model: part of every cache key and of a physical collection's identity."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    async def embed(
        self,
        texts: Sequence[str],
        *,
        kind: Literal["query", "document"],
        priority: Priority = Priority.INTERACTIVE,
    ) -> Vectors:
        """One normalised vector a text, in order, shape ``(len(texts), dimension)``.

        Raises ``EmbeddingError``; ``OverloadedError`` or ``CapacityError`` when the queue is full.
        """
        ...


class PairScorer(Protocol):
    """A cross-encoder: reads query and passage together."""

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    @property
    def languages(self) -> frozenset[str]:
        """ISO 639-1 codes, or ``*`` for any."""
        ...

    async def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Raw logits, shape ``(len(texts),)``. Raises ``RerankError``."""
        ...


class Reranker(Protocol):
    """Reorders hits for a query."""

    @property
    def languages(self) -> frozenset[str]:
        """ISO 639-1 codes, or ``*`` for any."""
        ...

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """The same hits, best first, ``score`` the mixed score and ``rerank_score`` set. Raises ``RerankError``."""
        ...


class Generator(Protocol):
    """A chat model."""

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    @property
    def languages(self) -> frozenset[str]:
        """ISO 639-1 codes, or ``*`` for any."""
        ...

    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and completion together."""
        ...

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, never too few."""
        ...

    def stream(self, messages: Sequence[Message], *, max_tokens: int, temperature: float) -> AsyncIterator[Delta]:
        """The completion as it is written; closing the iterator cancels it upstream. Raises ``GenerationError``."""
        ...

    async def ping(self) -> None:
        """Raises ``GenerationError`` when no backend answers."""
        ...


class Tokenizer(Protocol):
    """The embedder's tokens, with their places in the text."""

    def spans(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """``[start, end)`` in code points of each text's tokens, in order, shape ``(tokens, 2)``.

        Without special tokens; spans do not overlap, and may be empty. Blocks: many texts at once are cheapest.
        """
        ...


class Parser(Protocol):
    """Reads one format. Runs in a child process: blocking is fine, hanging is survived."""

    name: str
    media_types: frozenset[str]

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        """Raises ``ParseError`` with a stable reason such as ``encrypted`` or ``malformed``."""
        ...


class DocumentParser(Protocol):
    """Parses any supported document within its limits; the tiers and their children stand behind it."""

    async def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        """Always ends within the tiers' limits, at a lower quality where it must. Raises ``ParseError``."""
        ...

    async def parse_fully(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        """The full document or nothing, within the longer budget of a promotion. Raises ``ParseError``."""
        ...


class Chunker(Protocol):
    """Cuts a parsed document: ``document.text[chunk.start:chunk.end] == chunk.text``, within token bounds."""

    async def chunk(self, document: ParsedDocument) -> list[Chunk]:
        """Chunks in order of the text; none for an empty one."""
        ...


class Blobs(Protocol):
    """Content-addressed bytes, per tenant."""

    async def put(self, scope: Scope, content: bytes) -> BlobRef:
        """Durable when it returns. Raises ``StorageFullError`` or ``BlobError``; nothing half-written stays."""
        ...

    async def get(self, scope: Scope, ref: BlobRef) -> bytes:
        """The bytes, checked against their hash. Raises ``BlobError``."""
        ...

    async def delete(self, scope: Scope, ref: BlobRef) -> None:
        """Remove; a missing one is a no-op."""
        ...


class Corpus(Protocol):
    """The slice of the catalog that the query path reads."""

    async def collection(self, scope: Scope, name: str, *, terms: Sequence[int] = ()) -> CollectionView:
        """One round trip: the live physical collection, its epoch, statistics and counts of ``terms``.

        Raises ``CollectionNotFoundError``.
        """
        ...

    async def current(
        self, scope: Scope, generations: Collection[tuple[UUID, int]], *, physical: str | None = None
    ) -> Mapping[UUID, DocumentLabel]:
        """One round trip: labels of the documents whose served generation is the given one.

        Documents that the scope may not read are absent; what is absent must not be served. Raises
        ``CollectionNotFoundError`` when ``physical`` is given and no collection of the tenant lives in it now.
        """
        ...


class IngestCatalog(Protocol):
    """The slice of the catalog that the ingest worker writes."""

    async def claim(self, tenant: str, document: UUID) -> Attempt | None:
        """Take the right to process a document, counting the attempt; ``None`` when there is nothing to do."""
        ...

    async def claim_promotion(self, tenant: str, document: UUID) -> Attempt | None:
        """Take the right to parse a degraded document again while it stays published; ``None``: it is not due."""
        ...

    async def held(self, attempts: Sequence[Attempt]) -> set[int]:
        """The generations of those attempts that have their right; one query for all of them."""
        ...

    async def stage(self, attempt: Attempt, stage: str) -> None:
        """Show what is being done. Raises ``SupersededError`` when the attempt lost its right."""
        ...

    async def release(self, attempt: Attempt) -> None:
        """Give the right back, with the counted try: an outage or a stop ended the attempt."""
        ...

    async def publish(self, publications: Sequence[Publication]) -> list[bool]:
        """One commit for all of one collection: flip generations, move the statistics, bump the epoch once.

        False for each whose attempt lost its right; its records are garbage.
        """
        ...

    async def fail(self, attempt: Attempt, *, code: str, message: str, history: Sequence[Mapping[str, Any]]) -> None:
        """End the attempt as failed; what is served stays served. A promotion is queued again, with a longer pause."""
        ...

    async def garbage(self, *, limit: int) -> list[Garbage]:
        """Superseded generations that stores may still hold."""
        ...

    async def postpone(self, ids: Sequence[int]) -> None:
        """Have the store asked later again for what it could not remove."""
        ...

    async def swept(self, ids: Sequence[int]) -> None:
        """The store holds them no longer."""
        ...
