"""What brings the catalog and what depends on it back in order: documents queued again, statistics counted anew."""

# ruff: noqa: S608  identifiers are constants of this package, values are parameters
from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from rag.catalog.database import WRITE_SECONDS
from rag.catalog.inspection import (
    LONGEST_LOOK,
    SERVED_TERMS,
    STALE_TERMS,
    InspectedDocument,
    Inspection,
    JoblessDocument,
    StoreNote,
)
from rag.core.catalog import CollectionView

ORIGINAL_LOST = "original_lost"

_REQUEUE = """
UPDATE documents SET state = 'queued', stage = NULL, tries = 0, error_code = NULL, error_message = NULL, fresh = true,
    promotions = 0, promotion_at = NULL, updated_at = now()
WHERE tenant = %(tenant)s AND id = %(id)s AND generation = %(generation)s AND state NOT IN ('queued', 'running')
RETURNING id
"""
_LOST = """
UPDATE documents SET state = 'failed', stage = NULL, claimed = NULL, claimed_at = NULL, promotion_at = NULL,
    error_code = %(code)s, error_message = %(message)s, updated_at = now()
WHERE tenant = %(tenant)s AND id = %(id)s AND generation = %(generation)s AND state NOT IN ('queued', 'running')
"""
_LOST_MESSAGE = "the original file is lost, so the index cannot be made again: upload the file again"
_STILL_JOBLESS = """
SELECT d.id FROM documents d WHERE d.tenant = %(tenant)s AND d.id = %(id)s AND d.state IN ('queued', 'running')
FOR UPDATE
"""
_RECOUNT = (
    f"DELETE FROM generation_terms WHERE generation IN ({STALE_TERMS})",
    "DELETE FROM term_counts t USING collections c WHERE c.id = %(collection)s AND t.physical = c.live",
    f"""
    INSERT INTO term_counts (physical, term, chunks)
    SELECT c.live, u.term, sum(u.n) FROM ({SERVED_TERMS}) served, unnest(served.terms, served.counts) u (term, n),
        collections c WHERE c.id = %(collection)s GROUP BY c.live, u.term
    """,
    f"""
    UPDATE physical_collections p SET documents = s.documents, chunks = s.chunks, total_terms = s.total_terms
    FROM (
        SELECT count(*) AS documents, coalesce(sum(chunks), 0) AS chunks, coalesce(sum(total_terms), 0) AS total_terms
        FROM ({SERVED_TERMS}) served
    ) s, collections c WHERE c.id = %(collection)s AND p.id = c.live
    """,
    "UPDATE collections SET epoch = epoch + 1 WHERE id = %(collection)s",
)
_RESERVE = """
SELECT setval('generations', %(generation)s::bigint) FROM generations WHERE last_value < %(generation)s::bigint
"""
_NOTE = """
INSERT INTO vector_store (kind, location) VALUES (%(kind)s, %(location)s)
ON CONFLICT (single) DO UPDATE SET kind = excluded.kind, location = excluded.location, noted_at = now()
"""
_UNFINISHED = "d.collection = r.collection AND d.generation <= r.mark AND d.state IN ('queued', 'running', 'published')"
_FORGET_FINISHED = f"""
DELETE FROM rebuilds r
WHERE r.collection = ANY(%(collections)s) AND NOT EXISTS (SELECT FROM documents d WHERE {_UNFINISHED})
"""
_BEGIN = """
INSERT INTO rebuilds (collection, mark) SELECT c.id, g.last_value FROM collections c, generations g
WHERE c.id = ANY(%(collections)s) ON CONFLICT DO NOTHING
"""
_OLD = """
SELECT d.id FROM documents d JOIN rebuilds r ON r.collection = d.collection
WHERE d.collection = %(collection)s AND d.generation <= r.mark AND d.state = ANY(%(states)s)
    AND (%(after)s::uuid IS NULL OR d.id > %(after)s::uuid) ORDER BY d.id LIMIT %(limit)s
"""
_LEFT = f"SELECT count(*) AS documents FROM documents d JOIN rebuilds r ON {_UNFINISHED} WHERE r.collection = %(id)s"
_FAILED = """
SELECT count(*) AS documents FROM documents d JOIN rebuilds r ON r.collection = d.collection
WHERE r.collection = %(id)s AND d.generation <= r.mark AND d.state IN ('failed', 'cancelled')
"""


class Restoration(Inspection):
    """Writes of doctor and rebuild; each may be repeated, beside a service that runs."""

    async def queue_again(self, documents: Sequence[InspectedDocument]) -> None:
        """Have settled documents ingested anew; what is served stays served until then.

        One that changed since it was read is left alone: something happened to it already.
        """
        async with self._database.transaction(limit=WRITE_SECONDS) as connection:
            for each in sorted(documents, key=lambda document: document.id):
                arguments = {"tenant": each.tenant, "id": each.id, "generation": each.generation}
                if await (await connection.execute(_REQUEUE, arguments)).fetchone() is not None:
                    await self._queue.defer_ingest(connection, tenant=each.tenant, document=each.id)

    async def mark_lost(self, document: InspectedDocument) -> None:
        """Show that a document cannot be ingested anew; what is served of it stays served."""
        identity = {"tenant": document.tenant, "id": document.id, "generation": document.generation}
        async with self._database.connection() as connection:
            await connection.execute(_LOST, identity | {"code": ORIGINAL_LOST, "message": _LOST_MESSAGE})

    async def give_job(self, document: JoblessDocument) -> None:
        """Have a document that waits looked at."""
        async with self._database.transaction() as connection:
            arguments = {"tenant": document.tenant, "id": document.id}
            if await (await connection.execute(_STILL_JOBLESS, arguments)).fetchone() is not None:
                await self._queue.defer_ingest(connection, tenant=document.tenant, document=document.id)

    async def recount(self, collection: UUID) -> None:
        """Make the statistics what the served generations add up to; publishes of the collection wait meanwhile."""
        async with self._database.transaction(limit=LONGEST_LOOK) as connection:
            await connection.execute("SELECT FROM collections WHERE id = %s FOR NO KEY UPDATE", (collection,))
            for statement in _RECOUNT:
                await connection.execute(statement, {"collection": collection})

    async def reserve_generations(self, up_to: int) -> None:
        """Never give out a generation up to this one: the store holds records that bear it."""
        async with self._database.connection() as connection:
            await connection.execute(_RESERVE, {"generation": up_to})

    async def note_store(self, note: StoreNote) -> None:
        """Keep which store the collections are indexed in."""
        async with self._database.connection() as connection:
            await connection.execute(_NOTE, {"kind": note.kind, "location": note.location})

    async def begin_rebuild(self, collections: Collection[CollectionView], note: StoreNote) -> None:
        """Mark what is served of the collections as old; one that was begun and is not at its end goes on."""
        arguments = {"collections": [each.id for each in collections]}
        async with self._database.transaction() as connection:
            await connection.execute(_NOTE, {"kind": note.kind, "location": note.location})
            await connection.execute(_FORGET_FINISHED, arguments)
            await connection.execute(_BEGIN, arguments)

    async def old_documents(
        self, collection: UUID, *, states: Collection[str], after: UUID | None, limit: int
    ) -> list[UUID]:
        """Documents of a rebuild, by id, whose old generation is served and that are in one of the states."""
        arguments = {"collection": collection, "states": list(states), "after": after, "limit": limit}
        return [row["id"] for row in await self._database.rows(_OLD, arguments)]

    async def rebuild_progress(self, collection: UUID) -> tuple[int, int]:
        """How many documents of a rebuild are still to be ingested, and how many could not be."""
        left = await self._database.row(_LEFT, {"id": collection})
        failed = await self._database.row(_FAILED, {"id": collection})
        return (left["documents"] if left else 0), (failed["documents"] if failed else 0)

    async def end_rebuild(self, collection: UUID) -> None:
        """Forget the mark."""
        async with self._database.connection() as connection:
            await connection.execute("DELETE FROM rebuilds WHERE collection = %s", (collection,))
