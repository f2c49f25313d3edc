"""Chunks to records in a store: embedded in bounded batches, checked before they are written, counted after."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from ingest.embedding import embed_documents
from rag.core.catalog import Attempt
from rag.core.errors import ModelMismatchError, StoreError
from rag.core.ports import Embedder, VectorStore
from rag.core.records import ByDocument, Record, RecordBatch, record_id
from rag.core.types import Chunk, Quality, Terms, Vectors
from rag.lexical import TermCounts, count_terms, document_weights

WRITE_BATCH = 256
"""Chunks written by one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalSide:
    """The terms of all chunks of a document, and what they add to the collection's statistics."""

    terms: Sequence[Terms]
    total_terms: int
    document_counts: Mapping[int, int]


async def analyze(chunks: Sequence[Chunk], attempt: Attempt) -> LexicalSide:
    """Weigh the terms of each chunk; the average length is the collection's with this document in it."""
    return await asyncio.to_thread(_analyze, chunks, attempt)


def _analyze(chunks: Sequence[Chunk], attempt: Attempt) -> LexicalSide:
    counted: list[TermCounts] = [count_terms(chunk.indexed) for chunk in chunks]
    total = sum(terms.length for terms in counted)
    statistics = attempt.collection.statistics
    chunks_in_all = statistics.chunks + len(counted)
    average = (statistics.total_terms + total) / chunks_in_all if chunks_in_all else 0.0
    holding: Counter[int] = Counter()
    for terms in counted:
        holding.update(terms.counts.keys())
    return LexicalSide(
        terms=[document_weights(terms, average_length=average) for terms in counted],
        total_terms=total,
        document_counts=dict(holding),
    )


class Indexer:
    """Writes the records of an attempt."""

    def __init__(self, store: VectorStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder

    async def write(
        self,
        attempt: Attempt,
        chunks: Sequence[Chunk],
        lexical: LexicalSide,
        *,
        quality: Quality,
        checkpoint: Callable[[], Awaitable[None]],
    ) -> None:
        """Embed and write all chunks, then count them back. ``checkpoint`` is awaited before each batch.

        Raises ``StoreError`` when the store holds another number of them, ``IngestError`` for vectors that
        cannot be right, ``ModelMismatchError``, and what embedder and store raise.
        """
        if self._embedder.model != attempt.collection.embedding_model:
            raise ModelMismatchError
        for first in range(0, len(chunks), WRITE_BATCH):
            await checkpoint()
            part = slice(first, first + WRITE_BATCH)
            texts = [chunk.indexed for chunk in chunks[part]]
            vectors = await embed_documents(self._embedder, texts, dimension=attempt.collection.spec.dimension)
            records = _records(attempt, chunks[part], lexical.terms[part], vectors, quality)
            await self._store.upsert(attempt.collection.physical, attempt.scope.as_service(), RecordBatch.of(records))
        await self._count_back(attempt, len(chunks))

    async def remove(self, attempt: Attempt) -> None:
        """Delete what the attempt wrote."""
        await self._store.delete(attempt.collection.physical, attempt.scope.as_service(), _own(attempt))

    async def _count_back(self, attempt: Attempt, expected: int) -> None:
        found = await self._store.count(attempt.collection.physical, attempt.scope.as_service(), _own(attempt))
        if found != expected:
            raise StoreError(f"the store holds {found} of {expected} chunks that were written")


def _own(attempt: Attempt) -> ByDocument:
    return ByDocument(document=attempt.document, generation=attempt.generation)


def _records(
    attempt: Attempt, chunks: Sequence[Chunk], terms: Sequence[Terms], vectors: Vectors, quality: Quality
) -> list[Record]:
    return [
        Record(
            id=record_id(
                tenant=attempt.scope.tenant,
                collection=attempt.collection.physical,
                document=attempt.document,
                generation=attempt.generation,
                index=chunk.index,
            ),
            vector=vector,
            terms=weights,
            text=chunk.text,
            start=chunk.start,
            end=chunk.end,
            tenant=attempt.scope.tenant,
            document=attempt.document,
            generation=attempt.generation,
            acl=attempt.acl,
            index=chunk.index,
            page=chunk.page,
            headings=chunk.headings,
            quality=quality,
            metadata=attempt.metadata,
        )
        for chunk, weights, vector in zip(chunks, terms, vectors, strict=True)
    ]
