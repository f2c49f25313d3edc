"""What the catalog says of everything that blobs and store should hold, for whoever compares them."""

# ruff: noqa: S608  identifiers are constants of this package, values are parameters
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from rag.catalog.database import SCHEMA, Database
from rag.catalog.errors import catalog_errors
from rag.catalog.queue import Queue
from rag.catalog.rows import COLLECTION_COLUMNS, LIVE, Row, collection_name, collection_view
from rag.core.catalog import BlobRef, CollectionView
from rag.core.types import DocumentState

LONGEST_LOOK = 600.0
"""Seconds that counting the terms of a whole collection may take."""

_DOCUMENTS = """
SELECT d.id, d.tenant, d.source, d.state, d.generation, d.claimed, d.chunks, d.metadata, d.acl, d.sha256, d.size,
    d.text_sha256, d.text_size, g.chunks AS counted
FROM documents d LEFT JOIN generation_terms g ON g.generation = d.generation AND g.document = d.id
"""
_PAGE = f"""
{_DOCUMENTS} WHERE d.collection = %(collection)s AND (%(after)s::uuid IS NULL OR d.id > %(after)s::uuid)
ORDER BY d.id LIMIT %(limit)s
"""
_BY_ID = f"{_DOCUMENTS} WHERE d.id = ANY(%(ids)s) AND d.tenant = %(tenant)s"
_EXPECTED = """
SELECT w.document, w.generation FROM unnest(%(documents)s::uuid[], %(generations)s::bigint[]) w (document, generation)
WHERE EXISTS (
    SELECT FROM documents d JOIN physical_collections p ON p.collection = d.collection
    WHERE d.id = w.document AND d.tenant = %(tenant)s AND p.name = %(physical)s
        AND w.generation IN (d.generation, d.claimed)
) OR EXISTS (
    SELECT FROM garbage g WHERE g.physical = %(physical)s AND g.tenant = %(tenant)s
        AND (g.document IS NULL OR g.document = w.document)
        AND (g.generation IS NULL OR g.generation = w.generation)
)
"""
_ALIGNING = """
SELECT j.args ->> 'document' AS document FROM procrastinate_jobs j
WHERE j.lock = ANY(%(locks)s) AND j.task_name = 'align_metadata' AND j.status IN ('todo', 'doing')
"""
_JOBLESS = """
SELECT d.id, d.tenant, d.source FROM documents d
WHERE d.collection = %(collection)s AND d.state IN ('queued', 'running') AND NOT EXISTS (
    SELECT FROM procrastinate_jobs j
    WHERE j.lock = d.id::text AND j.status IN ('todo', 'doing') AND j.task_name = 'ingest_document'
) ORDER BY d.id LIMIT %(limit)s
"""
SERVED_TERMS = """
SELECT g.* FROM generation_terms g JOIN documents d ON d.id = g.document AND d.generation = g.generation
WHERE d.collection = %(collection)s
"""
STALE_TERMS = """
SELECT g.generation FROM generation_terms g JOIN documents d ON d.id = g.document
WHERE d.collection = %(collection)s AND d.generation IS DISTINCT FROM g.generation
"""
_STATISTICS = f"""
WITH served AS ({SERVED_TERMS}), summed AS (
    SELECT u.term, sum(u.n) AS chunks FROM served, unnest(terms, counts) u (term, n) GROUP BY u.term
)
SELECT p.documents, p.chunks, p.total_terms, totals.*, (SELECT count(*) FROM ({STALE_TERMS}) stale) AS stale,
    (SELECT count(*) FROM summed s FULL JOIN (SELECT term, chunks FROM term_counts WHERE physical = p.id) t USING (term)
        WHERE coalesce(s.chunks, 0) <> coalesce(t.chunks, 0)) AS terms
FROM {LIVE}, LATERAL (
    SELECT count(*) AS served_documents, coalesce(sum(chunks), 0)::bigint AS served_chunks,
        coalesce(sum(total_terms), 0)::bigint AS served_terms FROM served
) totals WHERE c.id = %(collection)s
"""
_REFERRED = """
SELECT b.sha256 FROM unnest(%(hashes)s::text[]) b (sha256)
WHERE EXISTS (SELECT FROM documents d WHERE d.tenant = %(tenant)s AND d.sha256 = b.sha256)
    OR EXISTS (SELECT FROM documents d WHERE d.tenant = %(tenant)s AND d.text_sha256 = b.sha256)
    OR EXISTS (SELECT FROM blob_garbage g WHERE g.tenant = %(tenant)s AND g.sha256 = b.sha256)
"""
_TENANTS = "SELECT DISTINCT tenant FROM collections UNION SELECT DISTINCT tenant FROM blob_garbage"
_WORKERS = "SELECT count(*) AS workers FROM procrastinate_workers WHERE last_heartbeat > now() - interval '30 seconds'"
_STORE = "SELECT kind, location, EXISTS (SELECT FROM collections) AS used FROM vector_store"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreNote:
    """Which store collections are indexed in: its kind and, without secrets, where it is."""

    kind: str
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedDocument:
    """A document as it should be found: ``chunks`` records of ``generation`` in the store, its blobs.

    ``metadata`` is JSON. ``counted``: the chunks that the served generation added to the statistics.
    """

    id: UUID
    tenant: str
    source: str
    state: DocumentState
    generation: int | None
    claimed: int | None
    chunks: int
    metadata: Mapping[str, Any]
    acl: tuple[str, ...]
    blob: BlobRef
    text: BlobRef | None
    counted: int | None

    @property
    def settled(self) -> bool:
        """Whether it is served and nothing is on its way that would serve it anew."""
        return self.generation is not None and self.state.terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class JoblessDocument:
    """A document that waits for a job which there is not."""

    id: UUID
    tenant: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsDifference:
    """The figures of a collection that are not what its served generations add up to: kept, then right.

    ``terms``: how many terms have another count; ``stale``: counts kept of generations that are not served.
    """

    figures: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    terms: int = 0
    stale: int = 0

    @property
    def size(self) -> int:
        """How many figures are wrong."""
        return len(self.figures) + self.terms + self.stale


class Inspection:
    """Reads for comparisons; each answer is of one moment."""

    def __init__(self, database: Database, queue: Queue) -> None:
        self._database = database
        self._queue = queue

    async def inspected_collections(self, name: str | None = None) -> list[CollectionView]:
        """The collections of every tenant, or those of one name."""
        arguments = {"name": None if name is None else collection_name(name)}
        where = "%(name)s::text IS NULL OR c.name = %(name)s"
        query = f"SELECT {COLLECTION_COLUMNS} FROM {LIVE} WHERE {where} ORDER BY c.tenant, c.name"
        return [collection_view(row) for row in await self._database.rows(query, arguments)]

    async def inspected_page(self, collection: UUID, *, after: UUID | None, limit: int) -> list[InspectedDocument]:
        """Documents of a collection by id, those behind ``after``."""
        arguments = {"collection": collection, "after": after, "limit": limit}
        return [_document(row) for row in await self._database.rows(_PAGE, arguments)]

    async def inspected_documents(self, tenant: str, ids: Collection[UUID]) -> dict[UUID, InspectedDocument]:
        """Those of the documents that exist."""
        rows = await self._database.rows(_BY_ID, {"tenant": tenant, "ids": list(ids)}) if ids else []
        return {row["id"]: _document(row) for row in rows}

    async def expected_generations(
        self, collection: CollectionView, generations: Collection[tuple[UUID, int]]
    ) -> set[tuple[UUID, int]]:
        """Those (document, generation) that the store may hold: served, being written, or known garbage."""
        pairs = list(generations)
        arguments = {
            "documents": [document for document, _ in pairs],
            "generations": [generation for _, generation in pairs],
            "tenant": collection.tenant,
            "physical": collection.physical,
        }
        rows = await self._database.rows(_EXPECTED, arguments) if pairs else []
        return {(row["document"], row["generation"]) for row in rows}

    async def being_aligned(self, ids: Collection[UUID]) -> set[UUID]:
        """Those of the documents whose metadata a job is about to write to the store."""
        locks = [f"align_metadata {each}" for each in ids]
        return {UUID(row["document"]) for row in await self._database.rows(_ALIGNING, {"locks": locks})}

    async def jobless_documents(self, collection: UUID, *, limit: int) -> list[JoblessDocument]:
        """Documents that are queued or running without a job that waits or runs."""
        rows = await self._database.rows(_JOBLESS, {"collection": collection, "limit": limit})
        return [JoblessDocument(**row) for row in rows]

    async def statistics_difference(self, collection: UUID) -> StatisticsDifference:
        """What is wrong with the statistics of a collection's live index; one statement, so exact at any time."""
        async with self._database.connection(limit=LONGEST_LOOK) as connection:
            row = await (await connection.execute(_STATISTICS, {"collection": collection})).fetchone()
        return _difference(row) if row else StatisticsDifference()

    async def referred_blobs(self, tenant: str, hashes: Sequence[str]) -> set[str]:
        """Those of the hashes that a document refers to, or that are known to be swept."""
        rows = await self._database.rows(_REFERRED, {"tenant": tenant, "hashes": list(hashes)})
        return {row["sha256"] for row in rows}

    async def tenants(self) -> list[str]:
        """Every tenant that has, or lately had, something."""
        return [row["tenant"] for row in await self._database.rows(_TENANTS)]

    async def living_workers(self) -> int:
        """Workers that gave a sign within 30 seconds."""
        row = await self._database.row(_WORKERS)
        return row["workers"] if row else 0

    async def noted_store(self) -> StoreNote | None:
        """The store that the collections are indexed in; ``None`` where there is no collection, or no note yet."""
        return _note(await self._database.row(_STORE))


async def peek_store(url: str, *, seconds: float = 3.0) -> StoreNote | None:
    """What :meth:`Inspection.noted_store` says, of a database that is left as it is. Raises ``CatalogError``."""
    with catalog_errors():
        connection = await psycopg.AsyncConnection.connect(
            url, autocommit=True, connect_timeout=max(2, int(seconds)), row_factory=dict_row
        )
        async with connection:
            cursor = await connection.execute("SELECT to_regclass(%s) AS known", (f"{SCHEMA}.vector_store",))
            row = await cursor.fetchone()
            if row is None or row["known"] is None:
                return None
            await connection.execute(f"SET search_path TO {SCHEMA}, public")
            return _note(await (await connection.execute(_STORE)).fetchone())


def _note(row: Row | None) -> StoreNote | None:
    return StoreNote(kind=row["kind"], location=row["location"]) if row and row["used"] else None


def _document(row: Row) -> InspectedDocument:
    same = ("id", "tenant", "source", "generation", "claimed", "chunks", "metadata", "counted")
    text = row["text_sha256"]
    return InspectedDocument(
        **{name: row[name] for name in same},
        state=DocumentState(row["state"]),
        acl=tuple(row["acl"]),
        blob=BlobRef(sha256=row["sha256"], size=row["size"]),
        text=BlobRef(sha256=text, size=row["text_size"]) if text is not None else None,
    )


def _difference(row: Row) -> StatisticsDifference:
    pairs = {
        "documents": (row["documents"], row["served_documents"]),
        "chunks": (row["chunks"], row["served_chunks"]),
        "total_terms": (row["total_terms"], row["served_terms"]),
    }
    figures = {name: (kept, right) for name, (kept, right) in pairs.items() if kept != right}
    return StatisticsDifference(figures=figures, terms=row["terms"], stale=row["stale"])
