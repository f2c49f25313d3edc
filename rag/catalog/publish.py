"""How attempts end: published, several of one collection in one commit, or failed. The fence is the claim."""

# ruff: noqa: S608  identifiers are constants of this package, values are parameters
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from rag.catalog.claims import MINE, Claims, holding_state, identity
from rag.catalog.database import WRITE_SECONDS, Connection, Database
from rag.catalog.garbage import discard_attempt, discard_blobs, discard_generation
from rag.catalog.history import entry, with_entry
from rag.catalog.queue import Queue
from rag.catalog.rows import Row, storable
from rag.catalog.statistics import add_generations, move_statistics
from rag.core.catalog import Attempt, PromotionPolicy, Publication

_FAIL = """
UPDATE documents SET state = 'failed', stage = NULL, claimed = NULL, claimed_at = NULL, error_code = %(code)s,
    error_message = %(message)s, attempts = %(attempts)s, updated_at = now() WHERE id = %(id)s
"""
_FAIL_PROMOTION = """
UPDATE documents SET claimed = NULL, claimed_at = NULL, attempts = %(attempts)s,
    promotion_at = now() + make_interval(secs => %(delay)s::float8), updated_at = now() WHERE id = %(id)s
"""
_HOME = """
SELECT c.id AS collection, p.id AS physical FROM physical_collections p
JOIN collections c ON c.id = p.collection AND c.live = p.id
WHERE p.name = %s AND c.tenant = %s FOR NO KEY UPDATE OF c
"""
_CANDIDATES = """
SELECT id, attempt, state, claimed, generation, text_sha256, text_size, attempts FROM documents
WHERE (tenant = %s) IS TRUE AND id = ANY(%s) ORDER BY id FOR UPDATE
"""
_FLIP = """
UPDATE documents SET state = 'published', stage = NULL, tries = 0, fresh = false, claimed = NULL, claimed_at = NULL,
    generation = %(generation)s, title = coalesce(given_title, %(title)s), quality = %(quality)s,
    text_sha256 = %(text_sha256)s, text_size = %(text_size)s, chunks = %(chunks)s, characters = %(characters)s,
    encoding = %(encoding)s, structure = %(structure)s, error_code = %(code)s, error_message = %(message)s,
    attempts = %(attempts)s, promotions = 0, promotion_at = now() + make_interval(secs => %(delay)s::float8),
    updated_at = now(), published_at = now()
WHERE id = %(id)s
"""


class Ingestion(Claims):
    """What an ingest worker does to documents."""

    def __init__(self, database: Database, queue: Queue, *, max_attempts: int, promotion: PromotionPolicy) -> None:
        super().__init__(database, max_attempts=max_attempts, promotion=promotion)
        self._queue = queue

    async def fail(self, attempt: Attempt, *, code: str, message: str, history: Sequence[Mapping[str, Any]]) -> None:
        """End the attempt as failed; what is served stays served. Nothing happens without the right.

        A failed promotion leaves its document published, and the next one is queued with a longer pause.
        """
        failed = entry(
            attempt.attempt, "failed", code=code, message=message, parsers=history, promotion=attempt.promotion
        )
        async with self._database.transaction() as connection:
            await discard_attempt(connection, attempt)
            cursor = await connection.execute(
                f"SELECT attempts, promotions FROM documents WHERE {MINE} FOR UPDATE", identity(attempt)
            )
            row = await cursor.fetchone()
            if row is not None:
                outcome = {"id": attempt.document, "attempts": with_entry(row["attempts"], failed)}
                if attempt.promotion:
                    await self._promote_later(connection, attempt, outcome, done=row["promotions"])
                else:
                    await connection.execute(_FAIL, outcome | {"code": code, "message": message})
            await self._queue.defer_sweep(connection)

    async def _promote_later(
        self, connection: Connection, attempt: Attempt, outcome: Mapping[str, Any], *, done: int
    ) -> None:
        delay = self._promotion.delay(done)
        await connection.execute(_FAIL_PROMOTION, dict(outcome) | {"delay": delay})
        await self._defer_promotion(connection, attempt, delay)

    async def _defer_promotion(self, connection: Connection, attempt: Attempt, delay: float | None) -> None:
        if delay is not None:
            at = datetime.now(UTC) + timedelta(seconds=delay)
            await self._queue.defer_promotion(connection, tenant=attempt.scope.tenant, document=attempt.document, at=at)

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
                winners = [each for each in publications if each.attempt.generation in won]
                await _flip(connection, home, winners, rows, promotion=self._promotion)
                for each in winners:
                    await self._defer_promotion(connection, each.attempt, _delay(each, self._promotion))
            await self._queue.defer_sweep(connection)
        return [each.attempt.generation in won for each in publications]


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
            and row["state"] == holding_state(attempt)
            and (row["attempt"], row["claimed"]) == (attempt.attempt, attempt.generation)
            and row["generation"] == attempt.base_generation
        ):
            won.setdefault(attempt.document, attempt.generation)
    return set(won.values())


async def _flip(
    connection: Connection,
    home: Row,
    won: Sequence[Publication],
    rows: Mapping[UUID, Row],
    *,
    promotion: PromotionPolicy,
) -> None:
    await add_generations(connection, won)
    async with connection.cursor() as cursor:
        await cursor.executemany(_FLIP, [_flipped(each, rows[each.attempt.document], promotion) for each in won])
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


def _delay(publication: Publication, promotion: PromotionPolicy) -> float | None:
    """Seconds before what is published is parsed again; ``None``: it is not."""
    return promotion.delay(0) if publication.quality.degraded else None


def _flipped(publication: Publication, row: Row, promotion: PromotionPolicy) -> dict[str, Any]:
    attempt, text, fault = publication.attempt, publication.text_blob, publication.fault
    message = f"served as a {publication.quality}: the document could not be read in full" if fault else None
    published = entry(
        attempt.attempt,
        "published",
        code=fault,
        message=message,
        parsers=[asdict(each) for each in publication.parse_attempts],
        promotion=attempt.promotion,
    )
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
        "structure": Jsonb(storable(publication.structure)),
        "code": fault,
        "message": message,
        "delay": _delay(publication, promotion),
        "attempts": with_entry(row["attempts"], published),
    }
