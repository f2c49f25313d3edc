"""Documents: uploaded, listed, changed, retried, deleted. Each change is one transaction with its job."""

# ruff: noqa: S608  identifiers are constants of this package, values are parameters
from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from rag.catalog.database import WRITE_SECONDS, Connection, Database
from rag.catalog.garbage import discard_blobs, discard_document, discard_generation
from rag.catalog.queue import Queue
from rag.catalog.rows import (
    DOCUMENT_COLUMNS,
    LIVE,
    VISIBLE,
    Row,
    collection_name,
    document_view,
    dump_cursor,
    groups,
    metadata_json,
    read_cursor,
    read_spec,
)
from rag.catalog.statistics import move_statistics
from rag.core.catalog import BlobRef, DocumentView, Page, Receipt
from rag.core.errors import CollectionNotFoundError, ConflictError, DocumentNotFoundError
from rag.core.filters import read_metadata
from rag.core.types import DocumentState, Metadata, Scope

_FROM = f"documents d JOIN {LIVE} ON c.id = d.collection"
_IN_COLLECTION = f"c.tenant = %(tenant)s AND c.name = %(name)s AND {VISIBLE}"
_READ = (
    f"SELECT {DOCUMENT_COLUMNS}, d.text_sha256, d.text_size, d.claimed, d.fresh FROM {_FROM} "
    f"WHERE {_IN_COLLECTION} AND d.id = %(id)s"
)
_FILTERED = (
    f"{_IN_COLLECTION} AND (%(state)s::text IS NULL OR d.state = %(state)s) "
    "AND (%(source)s::text IS NULL OR d.source = %(source)s)"
)
_PAGE = (
    f"SELECT {DOCUMENT_COLUMNS} FROM {_FROM} WHERE {_FILTERED} "
    "AND (%(moment)s::timestamptz IS NULL OR (d.created_at, d.id) < (%(moment)s::timestamptz, %(after)s::uuid)) "
    "ORDER BY d.created_at DESC, d.id DESC LIMIT %(limit)s"
)
_METADATA = (
    f"SELECT p.name AS physical, p.spec::text AS spec, d.metadata FROM {_FROM} "
    "WHERE d.tenant = %(tenant)s AND d.id = %(id)s"
)
_COUNT = f"SELECT count(*) AS total FROM {_FROM} WHERE {_FILTERED}"
_COLLECTION = f"SELECT c.id, p.id AS physical, p.spec::text AS spec FROM {LIVE} WHERE c.tenant = %s AND c.name = %s"
_INSERT = """
INSERT INTO documents (id, tenant, collection, source, media_type, sha256, size, metadata, acl, given_title, title,
    state)
VALUES (%(id)s, %(tenant)s, %(collection)s, %(source)s, %(media_type)s, %(sha256)s, %(size)s, %(metadata)s, %(acl)s,
    %(title)s, %(title)s, 'queued')
ON CONFLICT (tenant, collection, source) DO NOTHING RETURNING id
"""
_EXISTING = """
SELECT id, media_type, sha256, size, metadata, acl, given_title, state FROM documents
WHERE tenant = %(tenant)s AND collection = %(collection)s AND source = %(source)s FOR UPDATE
"""
_REPLACE = """
UPDATE documents SET media_type = %(media_type)s, sha256 = %(sha256)s, size = %(size)s, metadata = %(metadata)s,
    acl = %(acl)s, given_title = coalesce(%(title)s, given_title) WHERE id = %(id)s
"""
_REQUEUE = """
UPDATE documents SET state = 'queued', stage = NULL, tries = 0, error_code = NULL, error_message = NULL,
    fresh = %s, promotions = 0, promotion_at = NULL, updated_at = now() WHERE id = %s
"""
_CANCEL = """
UPDATE documents SET state = 'cancelled', stage = NULL, claimed = NULL, claimed_at = NULL, updated_at = now()
WHERE id = %s
"""
_END_PROMOTION = """
UPDATE documents SET claimed = NULL, claimed_at = NULL, promotion_at = NULL, updated_at = now() WHERE id = %s
"""
_REPEAT_PROMOTION = """
UPDATE documents SET claimed = NULL, claimed_at = NULL, promotions = greatest(promotions - 1, 0), promotion_at = now()
WHERE id = %s
"""
_SERVED = "SELECT claimed, generation, sha256, size, text_sha256, text_size FROM documents WHERE id = %s FOR UPDATE"


class Documents:
    """Creates, reads, changes and deletes documents."""

    def __init__(self, database: Database, queue: Queue) -> None:
        self._database = database
        self._queue = queue

    async def create_document(
        self,
        scope: Scope,
        collection: str,
        *,
        source: str,
        blob: BlobRef,
        media_type: str,
        metadata: Metadata,
        acl: Sequence[str] = (),
        title: str | None = None,
    ) -> Receipt:
        """Take in an upload whose bytes are a durable blob: row and job in one commit.

        What is there already and not failed is ``unchanged``. Any difference keeps the document's id and
        queues it again; what is served stays served until the new attempt publishes. A ``title`` of
        ``None`` keeps the one given before. Raises ``CollectionNotFoundError``, ``FilterError``.
        """
        async with self._database.transaction() as connection:
            home = await _collection(connection, scope, collection)
            upload = {
                "tenant": scope.tenant,
                "collection": home["id"],
                "source": source,
                "media_type": media_type,
                "sha256": blob.sha256,
                "size": blob.size,
                "metadata": Jsonb(metadata_json(metadata, read_spec(home["spec"]))),
                "acl": sorted(set(acl)),
                "title": title,
            }
            document, created, changed = await self._place(connection, upload)
            row = await _row(connection, scope.as_service(), collection, document)
        return Receipt(document=document_view(row), unchanged=not changed, created=created)

    async def _place(self, connection: Connection, upload: dict[str, Any]) -> tuple[UUID, bool, bool]:
        """Gives the document's id, whether it is new, and whether a job looks at it."""
        fresh = uuid4()
        existing = None
        while existing is None:
            cursor = await connection.execute(_INSERT, upload | {"id": fresh})
            if await cursor.fetchone() is not None:
                await self._queue.defer_ingest(connection, tenant=upload["tenant"], document=fresh)
                return fresh, True, True
            existing = await (await connection.execute(_EXISTING, upload)).fetchone()
        if _same(existing, upload) and existing["state"] not in (DocumentState.FAILED, DocumentState.CANCELLED):
            return existing["id"], False, False
        await connection.execute(_REPLACE, upload | {"id": existing["id"]})
        if existing["sha256"] != upload["sha256"]:
            await discard_blobs(connection, upload["tenant"], [(existing["sha256"], existing["size"])])
        await self._requeue(connection, upload["tenant"], existing["id"])
        return existing["id"], False, True

    async def _requeue(self, connection: Connection, tenant: str, document: UUID, *, fresh: bool = False) -> None:
        """The running attempt or promotion, if any, loses its right with this."""
        await connection.execute(_REQUEUE, (fresh, document))
        await self._queue.defer_ingest(connection, tenant=tenant, document=document)

    async def get_document(self, scope: Scope, collection: str, id: UUID) -> DocumentView:
        """One document. Raises ``DocumentNotFoundError``; another tenant's is unknown."""
        return document_view(await self._read(scope, collection, id))

    async def text_ref(self, scope: Scope, collection: str, id: UUID) -> BlobRef | None:
        """The parsed text of the served generation; ``None`` while there is none."""
        row = await self._read(scope, collection, id)
        if row["generation"] is None or row["text_sha256"] is None:
            return None
        return BlobRef(sha256=row["text_sha256"], size=row["text_size"])

    async def _read(self, scope: Scope, collection: str, id: UUID) -> Row:
        row = await self._database.row(_READ, _key(scope, collection) | {"id": id})
        if row is None:
            async with self._database.connection() as connection:
                await _collection(connection, scope, collection)
            raise DocumentNotFoundError(f"no document {id}")
        return row

    async def list_documents(
        self,
        scope: Scope,
        collection: str,
        *,
        state: DocumentState | None = None,
        source: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page:
        """Newest first; ``total`` counts all that pass. Raises ``InvalidRequestError`` for a bad cursor."""
        moment, after = read_cursor(cursor) if cursor else (None, None)
        arguments = _key(scope, collection) | {"state": state and str(state), "source": source}
        async with self._database.connection() as connection:
            await _collection(connection, scope, collection)
            page = await connection.execute(_PAGE, arguments | {"moment": moment, "after": after, "limit": limit + 1})
            rows = await page.fetchall()
            total = await (await connection.execute(_COUNT, arguments)).fetchone()
        items = tuple(document_view(row) for row in rows[:limit])
        more = dump_cursor(items[-1].created_at, items[-1].id) if len(rows) > limit and items else None
        return Page(items=items, next=more, total=total["total"] if total else 0)

    async def update_metadata(self, scope: Scope, collection: str, id: UUID, metadata: Metadata) -> DocumentView:
        """Replace the user metadata, without a new ingest where none is running; bumps the epoch.

        A running attempt carries the old metadata: it loses its right and the document is queued again, or its
        promotion. The caller writes to the store with ``align_metadata``; a job does it again, should the caller
        not come to it.
        """
        async with self._database.transaction() as connection:
            home = await _collection(connection, scope, collection, lock=True)
            before = await _row(connection, scope, collection, id, lock=True)
            await connection.execute(
                "UPDATE documents SET metadata = %s, updated_at = now() WHERE id = %s",
                (Jsonb(metadata_json(metadata, read_spec(home["spec"]))), id),
            )
            await connection.execute("UPDATE collections SET epoch = epoch + 1 WHERE id = %s", (home["id"],))
            if before["state"] == DocumentState.RUNNING:
                await self._requeue(connection, scope.tenant, id, fresh=before["fresh"])
            elif before["state"] == DocumentState.PUBLISHED and before["claimed"] is not None:
                await self._repeat_promotion(connection, scope.tenant, home, before)
            await self._queue.defer_alignment(connection, tenant=scope.tenant, document=id)
            return document_view(await _row(connection, scope, collection, id))

    async def kept_metadata(self, tenant: str, id: UUID) -> tuple[str, Metadata] | None:
        """The physical collection and the metadata of a document; ``None`` where it is gone."""
        row = await self._database.row(_METADATA, {"tenant": tenant, "id": id})
        if row is None:
            return None
        return row["physical"], read_metadata(row["metadata"], read_spec(row["spec"]).filterable)

    async def _repeat_promotion(self, connection: Connection, tenant: str, home: Row, row: Row) -> None:
        await discard_generation(connection, tenant, home["physical"], row["id"], row["claimed"], straggling=True)
        await connection.execute(_REPEAT_PROMOTION, (row["id"],))
        await self._queue.defer_promotion(connection, tenant=tenant, document=row["id"])

    async def retry_document(self, scope: Scope, collection: str, id: UUID) -> DocumentView:
        """Start anew, in whatever state, keeping the history; nothing kept of equal bytes is taken.

        A running attempt loses its right; one that waits to be tried again is tried at once.
        """
        async with self._database.transaction() as connection:
            before = await _row(connection, scope, collection, id, lock=True)
            fresh = before["state"] != DocumentState.QUEUED or before["fresh"]
            await self._requeue(connection, scope.tenant, id, fresh=fresh)
            return document_view(await _row(connection, scope, collection, id))

    async def cancel_document(self, scope: Scope, collection: str, id: UUID) -> DocumentView:
        """End what waits or runs for a document; what is served stays served.

        A degraded document stays published and is not promoted any more. Raises ``ConflictError`` where nothing
        waits or runs.
        """
        async with self._database.transaction() as connection:
            home = await _collection(connection, scope, collection)
            before = await _row(connection, scope, collection, id, lock=True)
            ended = DocumentState(before["state"]).terminal
            if ended and before["promotion_at"] is None:
                raise ConflictError(f"there is nothing to cancel: the document is {before['state']}")
            if before["claimed"] is not None:
                await discard_generation(
                    connection, scope.tenant, home["physical"], id, before["claimed"], straggling=True
                )
            await connection.execute(_END_PROMOTION if ended else _CANCEL, (id,))
            return document_view(await _row(connection, scope, collection, id))

    async def delete_document(self, scope: Scope, collection: str, id: UUID) -> None:
        """Gone for every reader when this returns, in whatever state it was. Raises ``DocumentNotFoundError``."""
        async with self._database.transaction(limit=WRITE_SECONDS) as connection:
            home = await _collection(connection, scope, collection, lock=True)
            await _row(connection, scope, collection, id, lock=True)
            served = await (await connection.execute(_SERVED, (id,))).fetchone()
            if served is None:
                raise DocumentNotFoundError(f"no document {id}")
            if served["generation"] is not None:
                await move_statistics(connection, home["physical"], added=[], removed=[served["generation"]])
            await connection.execute("UPDATE collections SET epoch = epoch + 1 WHERE id = %s", (home["id"],))
            await discard_document(
                connection, scope.tenant, home["physical"], id, claimed=served["claimed"] is not None
            )
            blobs = [(served["sha256"], served["size"]), (served["text_sha256"], served["text_size"])]
            await discard_blobs(connection, scope.tenant, blobs)
            await connection.execute("DELETE FROM documents WHERE id = %s", (id,))
            await self._queue.defer_sweep(connection)


def _key(scope: Scope, collection: str) -> dict[str, Any]:
    return {"tenant": scope.tenant, "name": collection_name(collection), "groups": groups(scope)}


async def _collection(connection: Connection, scope: Scope, name: str, *, lock: bool = False) -> Row:
    """The collection's row; locks come in one order: collection, then documents by id."""
    query = f"{_COLLECTION} FOR NO KEY UPDATE OF c" if lock else _COLLECTION
    row = await (await connection.execute(query, (scope.tenant, collection_name(name)))).fetchone()
    if row is None:
        raise CollectionNotFoundError(f"no collection {name!r}")
    return row


async def _row(connection: Connection, scope: Scope, collection: str, id: UUID, *, lock: bool = False) -> Row:
    query = f"{_READ} FOR UPDATE OF d" if lock else _READ
    row = await (await connection.execute(query, _key(scope, collection) | {"id": id})).fetchone()
    if row is None:
        await _collection(connection, scope, collection)
        raise DocumentNotFoundError(f"no document {id}")
    return row


def _same(existing: Row, upload: Row) -> bool:
    return (
        existing["sha256"] == upload["sha256"]
        and existing["media_type"] == upload["media_type"]
        and existing["metadata"] == upload["metadata"].obj
        and sorted(existing["acl"]) == upload["acl"]
        and upload["title"] in (None, existing["given_title"])
    )
