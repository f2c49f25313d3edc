"""What stores and the blob folder may still hold of what is served no longer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from rag.catalog.database import WRITE_SECONDS, Connection, Database
from rag.core.catalog import Attempt, BlobRef, Garbage
from rag.core.types import Scope

_STRAGGLER_SECONDS = 3600.0
"""A worker that was cut off may still write this long; what it writes is swept afterwards."""

POSTPONED_SECONDS = 60.0
"""When the store is asked again for what it could not remove."""

BLOB_GRACE_SECONDS = 3600.0
"""Bytes put longer ago than this have their row, if they ever get one."""

_DISCARD = """
INSERT INTO garbage (tenant, physical, document, generation, due)
SELECT %(tenant)s, p.name, %(document)s, %(generation)s, now() + make_interval(secs => %(delay)s)
FROM physical_collections p WHERE p.id = %(physical)s
"""
_DISCARD_ATTEMPT = """
INSERT INTO garbage (tenant, physical, document, generation)
SELECT %s, p.name, %s, %s FROM physical_collections p WHERE p.name = %s
"""
_DISCARD_BLOB = """
INSERT INTO blob_garbage (tenant, sha256, size) VALUES (%s, %s, %s)
ON CONFLICT (tenant, sha256) DO UPDATE SET due = now()
"""
_UNUSED = """
DELETE FROM blob_garbage WHERE (tenant, sha256) IN (
    SELECT tenant, sha256 FROM blob_garbage WHERE due <= now() ORDER BY due LIMIT %s FOR UPDATE SKIP LOCKED
) RETURNING tenant, sha256, size,
    EXISTS (SELECT FROM documents d WHERE d.tenant = blob_garbage.tenant AND d.sha256 = blob_garbage.sha256)
    OR EXISTS (SELECT FROM documents d WHERE d.tenant = blob_garbage.tenant AND d.text_sha256 = blob_garbage.sha256)
    AS used
"""
_POSTPONE = """
INSERT INTO blob_garbage (tenant, sha256, size, due) VALUES (%s, %s, %s, now() + make_interval(secs => %s))
ON CONFLICT DO NOTHING
"""


class AgingBlobs(Protocol):
    """Blobs that can be removed only when nobody put them lately."""

    async def discard(self, scope: Scope, ref: BlobRef, *, older_than: float) -> bool:
        """Remove what was last put more than ``older_than`` seconds ago; ``False``: it is younger, and stays."""
        ...


class GarbageList:
    """What is to be removed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def garbage(self, *, limit: int) -> list[Garbage]:
        """Oldest first. No ``document``: the whole physical collection; no ``generation``: all of a document."""
        rows = await self._database.rows(
            "SELECT id, tenant, physical, document, generation FROM garbage WHERE due <= now() "
            "ORDER BY id LIMIT %(limit)s",
            {"limit": limit},
        )
        return [Garbage(**row) for row in rows]

    async def swept(self, ids: Sequence[int]) -> None:
        """The store holds them no longer."""
        async with self._database.connection() as connection:
            await connection.execute("DELETE FROM garbage WHERE id = ANY(%s)", (list(ids),))

    async def postpone(self, ids: Sequence[int]) -> None:
        """Have the store asked later again for what it could not remove, so that it keeps nothing else back."""
        async with self._database.connection() as connection:
            await connection.execute(
                "UPDATE garbage SET due = now() + make_interval(secs => %s) WHERE id = ANY(%s)",
                (POSTPONED_SECONDS, list(ids)),
            )

    async def sweep_blobs(self, blobs: AgingBlobs, *, limit: int = 100, older_than: float = BLOB_GRACE_SECONDS) -> int:
        """Remove blobs that no document refers to; gives how many.

        An upload puts its bytes before its row exists: bytes that were put lately are left for later.
        """
        removed = 0
        async with self._database.transaction(limit=WRITE_SECONDS) as connection:
            candidates = await (await connection.execute(_UNUSED, (limit,))).fetchall()
            for row in candidates:
                if row["used"]:
                    continue
                ref = BlobRef(sha256=row["sha256"], size=row["size"])
                gone = await blobs.discard(Scope(tenant=row["tenant"], groups=None), ref, older_than=older_than)
                removed += gone
                if not gone:
                    await connection.execute(_POSTPONE, (row["tenant"], ref.sha256, ref.size, older_than))
        return removed


async def discard_document(
    connection: Connection, tenant: str, physical: int, document: UUID, *, claimed: bool
) -> None:
    """All generations of a document are garbage; once more later when an attempt may still be writing."""
    arguments = {"tenant": tenant, "document": document, "generation": None, "physical": physical}
    await connection.execute(_DISCARD, arguments | {"delay": 0.0})
    if claimed:
        await connection.execute(_DISCARD, arguments | {"delay": _STRAGGLER_SECONDS})


async def discard_generation(
    connection: Connection, tenant: str, physical: int, document: UUID, generation: int, *, straggling: bool = False
) -> None:
    """One generation of a document is garbage; once more later when its attempt may be ``straggling``."""
    arguments = {"tenant": tenant, "document": document, "generation": generation, "physical": physical}
    await connection.execute(_DISCARD, arguments | {"delay": 0.0})
    if straggling:
        await connection.execute(_DISCARD, arguments | {"delay": _STRAGGLER_SECONDS})


async def discard_attempt(connection: Connection, attempt: Attempt) -> None:
    """What an attempt without right wrote is garbage."""
    await connection.execute(
        _DISCARD_ATTEMPT,
        (attempt.scope.tenant, attempt.document, attempt.generation, attempt.collection.physical),
    )


async def discard_blobs(connection: Connection, tenant: str, blobs: Sequence[tuple[str | None, int | None]]) -> None:
    """These blobs lost a reference."""
    for sha256, size in blobs:
        if sha256 is not None:
            await connection.execute(_DISCARD_BLOB, (tenant, sha256, size))
