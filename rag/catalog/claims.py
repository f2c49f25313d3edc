"""The right to work on a document: claimed for an upload or a promotion, shown, checked, lost.

An upload's attempt runs on a document that is ``running``; a promotion's on one that stays ``published``. In both
``claimed`` is the generation that the attempt writes, new for each: whoever takes the right away changes it or the
state, so an attempt that lost its right can do nothing more.
"""

# ruff: noqa: S608  identifiers are constants of this package, values are parameters
from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from rag.catalog.database import Connection, Database
from rag.catalog.garbage import discard_attempt, discard_generation
from rag.catalog.history import entry, lost_entry, with_entry
from rag.catalog.rows import COLLECTION_COLUMNS, LIVE, Row, collection_view
from rag.core.catalog import Attempt, BlobRef, CollectionView, PromotionPolicy
from rag.core.errors import SupersededError
from rag.core.filters import read_metadata
from rag.core.types import DocumentState, Scope

TOO_MANY_ATTEMPTS = "too_many_attempts"

_CLAIMED = """
SELECT d.collection, d.source, d.media_type, d.sha256, d.size, d.metadata, d.acl, d.state, d.attempt, d.tries,
    d.fresh, d.claimed, d.claimed_at, d.promotions, d.generation, d.attempts, c.live
FROM documents d JOIN collections c ON c.id = d.collection WHERE d.tenant = %s AND d.id = %s
"""
_CLAIMABLE = f"{_CLAIMED} AND d.state IN ('queued', 'running') FOR UPDATE OF d"
_PROMOTABLE = f"""
{_CLAIMED} AND d.state = 'published' AND d.promotion_at <= now() + interval '1 second' FOR UPDATE OF d
"""
_CLAIM = """
UPDATE documents SET state = 'running', stage = NULL, attempt = attempt + 1, tries = tries + 1, attempts = %s,
    claimed = nextval('generations'), claimed_at = now(), updated_at = now() WHERE id = %s RETURNING attempt, claimed
"""
_CLAIM_PROMOTION = """
UPDATE documents SET attempt = attempt + 1, promotions = promotions + 1, attempts = %s,
    claimed = nextval('generations'), claimed_at = now() WHERE id = %s RETURNING attempt, claimed
"""
_GIVE_UP = """
UPDATE documents SET state = 'failed', stage = NULL, claimed = NULL, claimed_at = NULL, error_code = %s,
    error_message = %s, attempts = %s, updated_at = now() WHERE id = %s
"""
_GIVE_UP_PROMOTION = """
UPDATE documents SET claimed = NULL, claimed_at = NULL, promotion_at = NULL, attempts = %s WHERE id = %s
"""
_HELD = """
SELECT claimed FROM documents
WHERE id = ANY(%(ids)s) AND claimed = ANY(%(generations)s::bigint[]) AND state IN ('running', 'published')
"""

MINE = (
    "id = %(id)s AND tenant = %(tenant)s AND attempt = %(attempt)s AND claimed = %(generation)s AND state = %(holds)s"
)
"""Rows on which an attempt has its right; its arguments are :func:`identity`."""

_RELEASE = f"""
UPDATE documents SET state = 'queued', stage = NULL, tries = greatest(tries - 1, 0), updated_at = now() WHERE {MINE}
"""
_RELEASE_PROMOTION = f"""
UPDATE documents SET promotions = greatest(promotions - 1, 0), claimed_at = NULL WHERE {MINE}
"""


class Claims:
    """Gives and checks the right to work on a document."""

    def __init__(self, database: Database, *, max_attempts: int, promotion: PromotionPolicy) -> None:
        self._database = database
        self._max_attempts = max_attempts
        self._promotion = promotion

    async def claim(self, tenant: str, document: UUID) -> Attempt | None:
        """Take the right to process a document, counting the attempt; ``None``: there is nothing to do.

        A running document is claimed anew: its worker died, and what that one still writes is fenced off.
        One that was claimed ``max_attempts`` times since it was queued ends as ``too_many_attempts``.
        """
        async with self._database.transaction() as connection:
            row = await (await connection.execute(_CLAIMABLE, (tenant, document))).fetchone()
            if row is None:
                return None
            await _forget_claim(connection, tenant, document, row)
            lost = [lost_entry(row, promotion=False)] if row["state"] == DocumentState.RUNNING else []
            if row["tries"] >= self._max_attempts:
                await _give_up(connection, document, row, lost)
                return None
            cursor = await connection.execute(_CLAIM, (with_entry(row["attempts"], *lost), document))
            return await _attempt(connection, tenant, document, row, await cursor.fetchone() or {}, promotion=False)

    async def claim_promotion(self, tenant: str, document: UUID) -> Attempt | None:
        """Take the right to parse a degraded document again; it stays published. ``None``: it is not due."""
        async with self._database.transaction() as connection:
            row = await (await connection.execute(_PROMOTABLE, (tenant, document))).fetchone()
            if row is None:
                return None
            await _forget_claim(connection, tenant, document, row)
            lost = [lost_entry(row, promotion=True)] if row["claimed_at"] is not None else []
            history = with_entry(row["attempts"], *lost)
            if row["promotions"] >= self._promotion.attempts:
                await connection.execute(_GIVE_UP_PROMOTION, (history, document))
                return None
            cursor = await connection.execute(_CLAIM_PROMOTION, (history, document))
            return await _attempt(connection, tenant, document, row, await cursor.fetchone() or {}, promotion=True)

    async def stage(self, attempt: Attempt, stage: str) -> None:
        """Show what is being done; a promotion only checks. Raises ``SupersededError`` without the right."""
        shown = None if attempt.promotion else stage
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                f"UPDATE documents SET stage = %(stage)s, updated_at = now() WHERE {MINE}",
                identity(attempt) | {"stage": shown},
            )
            if cursor.rowcount == 0:
                await discard_attempt(connection, attempt)
        if cursor.rowcount == 0:
            raise SupersededError

    async def release(self, attempt: Attempt) -> None:
        """Give the right back, with the counted try: an outage or a stop ended the attempt. A lost one stays."""
        async with self._database.connection() as connection:
            await connection.execute(_RELEASE_PROMOTION if attempt.promotion else _RELEASE, identity(attempt))

    async def held(self, attempts: Sequence[Attempt]) -> set[int]:
        """The generations of those attempts that have their right; one query for all of them."""
        arguments = {
            "ids": [each.document for each in attempts],
            "generations": [each.generation for each in attempts],
        }
        return {row["claimed"] for row in await self._database.rows(_HELD, arguments)}


def identity(attempt: Attempt) -> dict[str, Any]:
    """The arguments of :data:`MINE`."""
    return {
        "id": attempt.document,
        "tenant": attempt.scope.tenant,
        "attempt": attempt.attempt,
        "generation": attempt.generation,
        "holds": str(holding_state(attempt)),
    }


def holding_state(attempt: Attempt) -> DocumentState:
    """The state of a document on which the attempt has its right."""
    return DocumentState.PUBLISHED if attempt.promotion else DocumentState.RUNNING


async def _forget_claim(connection: Connection, tenant: str, document: UUID, row: Row) -> None:
    if row["claimed"] is not None:
        await discard_generation(connection, tenant, row["live"], document, row["claimed"], straggling=True)


async def _give_up(connection: Connection, document: UUID, row: Row, lost: Sequence[dict[str, Any]]) -> None:
    message = f"given up after {row['tries']} attempts: each ended without a result"
    last = lost or [entry(row["attempt"], "failed", code=TOO_MANY_ATTEMPTS, message=message)]
    await connection.execute(_GIVE_UP, (TOO_MANY_ATTEMPTS, message, with_entry(row["attempts"], *last), document))


async def _collection(connection: Connection, collection: UUID) -> CollectionView:
    cursor = await connection.execute(f"SELECT {COLLECTION_COLUMNS} FROM {LIVE} WHERE c.id = %s", (collection,))
    row = await cursor.fetchone()
    if row is None:
        raise SupersededError
    return collection_view(row)


async def _attempt(
    connection: Connection, tenant: str, document: UUID, row: Row, claim: Row, *, promotion: bool
) -> Attempt:
    view = await _collection(connection, row["collection"])
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
        promotion=promotion,
        fresh=promotion or row["fresh"],
    )
