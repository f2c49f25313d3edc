"""The ingest worker's writes: claim, stage, publish, fail. The fence is (state, attempt, generation)."""

# ruff: noqa: S608  identifiers are constants of this package, values are parameters
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from rag.catalog.database import WRITE_SECONDS, Connection, Database
from rag.catalog.garbage import discard_attempt, discard_blobs, discard_generation
from rag.catalog.queue import Queue
from rag.catalog.rows import COLLECTION_COLUMNS, LIVE, Row, collection_view, newest_attempts
from rag.catalog.statistics import add_generations, move_statistics
from rag.core.catalog import Attempt, BlobRef, CollectionView, Publication
from rag.core.errors import SupersededError
from rag.core.filters import read_metadata
from rag.core.types import DocumentState, Scope

TOO_MANY_ATTEMPTS = "too_many_attempts"

_CLAIMABLE = """
SELECT d.collection, d.source, d.media_type, d.sha256, d.size, d.metadata, d.acl, d.attempt, d.tries, d.claimed,
    d.generation, d.attempts, c.live FROM documents d JOIN collections c ON c.id = d.collection
WHERE d.tenant = %s AND d.id = %s AND d.state IN ('queued', 'running') FOR UPDATE OF d
"""
_CLAIM = """
UPDATE documents SET state = 'running', stage = NULL, attempt = attempt + 1, tries = tries + 1,
    claimed = nextval('generations'), updated_at = now() WHERE id = %s RETURNING attempt, claimed
"""
_MINE = "id = %(id)s AND tenant = %(tenant)s AND attempt = %(attempt)s AND state = 'running'"
_FAIL = """
UPDATE documents SET state = 'failed', stage = NULL, claimed = NULL, error_code = %(code)s, error_message = %(message)s,
    attempts = %(attempts)s, updated_at = now() WHERE id = %(id)s
"""
_HOME = """
SELECT c.id AS collection, p.id AS physical FROM physical_collections p
JOIN collections c ON c.id = p.collection AND c.live = p.id
WHERE p.name = %s AND c.tenant = %s FOR NO KEY UPDATE OF c
"""
_CANDIDATES = """
SELECT id, attempt, state, generation, text_sha256, text_size, attempts FROM documents
WHERE (tenant = %s) IS TRUE AND id = ANY(%s) ORDER BY id FOR UPDATE
"""
_FLIP = """
UPDATE documents SET state = 'published', stage = NULL, tries = 0, claimed = NULL, generation = %(generation)s,
    title = coalesce(given_title, %(title)s), quality = %(quality)s, text_sha256 = %(text_sha256)s,
    text_size = %(text_size)s, chunks = %(chunks)s, characters = %(characters)s, encoding = %(encoding)s,
    error_code = NULL, error_message = NULL, attempts = %(attempts)s, updated_at = now(), published_at = now()
WHERE id = %(id)s
"""


class Ingestion:
    """What an ingest worker does to documents."""

    def __init__(self, database: Database, queue: Queue, *, max_attempts: int) -> None:
        self._database = database
        self._queue = queue
        self._max_attempts = max_attempts

    async def claim(self, tenant: str, document: UUID) -> Attempt | None:
        """Take the right to process a document, counting the attempt; ``None``: there is nothing to do.

        A running document is claimed anew: its worker died, and what that one still writes is fenced off.
        One that was claimed ``max_attempts`` times since it was queued ends as ``too_many_attempts``.
        """
        async with self._database.transaction() as connection:
            row = await (await connection.execute(_CLAIMABLE, (tenant, document))).fetchone()
            if row is None:
                return None
            if row["claimed"] is not None:
                await discard_generation(connection, tenant, row["live"], document, row["claimed"])
            if row["tries"] >= self._max_attempts:
                await _give_up(connection, document, row)
                return None
            claim = await (await connection.execute(_CLAIM, (document,))).fetchone()
            view = await _collection(connection, row["collection"])
        return _attempt(tenant, document, row, claim or {}, view)

    async def stage(self, attempt: Attempt, stage: str) -> None:
        """Show what is being done. Raises ``SupersededError`` when the attempt lost its right."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                f"UPDATE documents SET stage = %(stage)s, updated_at = now() WHERE {_MINE}",
                _identity(attempt) | {"stage": stage},
            )
            if cursor.rowcount == 0:
                await discard_attempt(connection, attempt)
        if cursor.rowcount == 0:
            raise SupersededError

    async def fail(self, attempt: Attempt, *, code: str, message: str, history: Sequence[Mapping[str, Any]]) -> None:
        """End the attempt as failed; what is served stays served. Nothing happens without the right."""
        async with self._database.transaction() as connection:
            await discard_attempt(connection, attempt)
            cursor = await connection.execute(
                f"SELECT attempts FROM documents WHERE {_MINE} FOR UPDATE", _identity(attempt)
            )
            row = await cursor.fetchone()
            if row is not None:
                entry = _entry(attempt.attempt, "failed", code=code, message=message, parsers=list(history))
                await _fail(connection, attempt.document, row["attempts"], entry)
            await self._queue.defer_sweep(connection)

    async def publish(self, publications: Sequence[Publication]) -> list[bool]:
        """One commit for all of one collection: flip generations, move the statistics, bump the epoch once.

        ``False`` for each whose attempt lost its right; its records become garbage.
        """
        if not publications:
            return []
        first = publications[0].attempt
        if len({(each.attempt.scope.tenant, each.attempt.collection.physical) for each in publications}) != 1:
            raise ValueError("a publish is of one collection")
        async with self._database.transaction(limit=WRITE_SECONDS) as connection:
            cursor = await connection.execute(_HOME, (first.collection.physical, first.scope.tenant))
            home = await cursor.fetchone()
            rows = await _candidates(connection, publications) if home is not None else {}
            won = _winners(publications, rows)
            for each in publications:
                if each.attempt.generation not in won:
                    await discard_attempt(connection, each.attempt)
            if home is not None and won:
                await _flip(connection, home, [each for each in publications if each.attempt.generation in won], rows)
            await self._queue.defer_sweep(connection)
        return [each.attempt.generation in won for each in publications]


async def _give_up(connection: Connection, document: UUID, row: Row) -> None:
    message = f"given up after {row['tries']} attempts: each ended without a result"
    entry = _entry(row["attempt"], "failed", code=TOO_MANY_ATTEMPTS, message=message, parsers=[])
    await _fail(connection, document, row["attempts"], entry)


async def _fail(
    connection: Connection, document: UUID, kept: Sequence[Mapping[str, Any]], entry: Mapping[str, Any]
) -> None:
    outcome = {"code": entry["code"], "message": entry["message"]}
    await connection.execute(_FAIL, outcome | {"id": document, "attempts": newest_attempts(kept, entry)})


def _entry(
    attempt: int, outcome: str, *, code: str | None, message: str | None, parsers: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One attempt as the document's history keeps it."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {
        "attempt": attempt, "outcome": outcome, "code": code, "message": message, "at": moment, "parsers": list(parsers)
    }  # fmt: skip


async def _collection(connection: Connection, collection: UUID) -> CollectionView:
    cursor = await connection.execute(f"SELECT {COLLECTION_COLUMNS} FROM {LIVE} WHERE c.id = %s", (collection,))
    row = await cursor.fetchone()
    if row is None:
        raise SupersededError
    return collection_view(row)


def _attempt(tenant: str, document: UUID, row: Row, claim: Row, view: CollectionView) -> Attempt:
    return Attempt(
        document=document,
        scope=Scope(tenant=tenant, groups=None),
        collection=view,
        attempt=claim["attempt"],
        generation=claim["claimed"],
        base_generation=row["generation"],
        source=row["source"],
        media_type=row["media_type"],
        blob=BlobRef(sha256=row["sha256"], size=row["size"]),
        metadata=read_metadata(row["metadata"], view.spec.filterable),
        acl=tuple(row["acl"]),
    )


def _identity(attempt: Attempt) -> dict[str, Any]:
    return {"id": attempt.document, "tenant": attempt.scope.tenant, "attempt": attempt.attempt}


async def _candidates(connection: Connection, publications: Sequence[Publication]) -> dict[UUID, Row]:
    tenant = publications[0].attempt.scope.tenant
    cursor = await connection.execute(_CANDIDATES, (tenant, [each.attempt.document for each in publications]))
    return {row["id"]: row for row in await cursor.fetchall()}


def _winners(publications: Sequence[Publication], rows: Mapping[UUID, Row]) -> set[int]:
    """Generations of the attempts that still have their right; the first one where a document comes twice."""
    won: dict[UUID, int] = {}
    for attempt in (each.attempt for each in publications):
        row = rows.get(attempt.document)
        if (
            row is not None
            and row["state"] == DocumentState.RUNNING
            and (row["attempt"], row["generation"]) == (attempt.attempt, attempt.base_generation)
        ):
            won.setdefault(attempt.document, attempt.generation)
    return set(won.values())


async def _flip(connection: Connection, home: Row, won: Sequence[Publication], rows: Mapping[UUID, Row]) -> None:
    await add_generations(connection, won)
    async with connection.cursor() as cursor:
        await cursor.executemany(_FLIP, [_flipped(each, rows[each.attempt.document]) for each in won])
    replaced = [(each.attempt, each.attempt.base_generation) for each in won]
    removed = [(attempt, old) for attempt, old in replaced if old is not None]
    added = [each.attempt.generation for each in won]
    await move_statistics(connection, home["physical"], added=added, removed=[old for _, old in removed])
    for attempt, old in removed:
        await discard_generation(connection, attempt.scope.tenant, home["physical"], attempt.document, old)
    for each in won:
        row = rows[each.attempt.document]
        if each.text_blob is None or row["text_sha256"] != each.text_blob.sha256:
            await discard_blobs(connection, each.attempt.scope.tenant, [(row["text_sha256"], row["text_size"])])
    await connection.execute("UPDATE collections SET epoch = epoch + 1 WHERE id = %s", (home["collection"],))


def _flipped(publication: Publication, row: Row) -> dict[str, Any]:
    attempt, text = publication.attempt, publication.text_blob
    parsers = [asdict(each) for each in publication.parse_attempts]
    entry = _entry(attempt.attempt, "published", code=None, message=None, parsers=parsers)
    return {
        "id": attempt.document,
        "generation": attempt.generation,
        "title": publication.title,
        "quality": str(publication.quality),
        "text_sha256": text and text.sha256,
        "text_size": text and text.size,
        "chunks": publication.chunks,
        "characters": publication.characters,
        "encoding": publication.encoding,
        "attempts": newest_attempts(row["attempts"], entry),
    }
