"""Degraded parse results, kept for a while so that equal bytes do not spend the same time again."""

from __future__ import annotations

from rag.catalog.database import Database
from rag.core.catalog import BlobRef
from rag.core.types import Scope

MOST_BYTES = 2**22
"""A result larger than this is not kept."""

_KEEP = """
INSERT INTO parse_results AS r (tenant, sha256, media_type, result, due)
VALUES (%s, %s, %s, %s, now() + make_interval(secs => %s))
ON CONFLICT (tenant, sha256, media_type) DO UPDATE SET result = excluded.result, due = excluded.due
"""
_KEPT = """
SELECT result FROM parse_results
WHERE tenant = %(tenant)s AND sha256 = %(sha256)s AND media_type = %(media_type)s AND due > now()
"""
_EXPIRE = """
DELETE FROM parse_results r WHERE due <= now() OR NOT EXISTS (
    SELECT FROM documents d WHERE d.tenant = r.tenant AND d.sha256 = r.sha256
)
"""


class ParseResults:
    """Keeps results by tenant, bytes and media type; what a result is, is its callers' matter."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep_result(self, scope: Scope, blob: BlobRef, media_type: str, result: bytes, *, ttl: float) -> None:
        """Keep a result for ``ttl`` seconds; one of more than ``MOST_BYTES`` is not kept."""
        if ttl <= 0 or len(result) > MOST_BYTES:
            return
        async with self._database.connection() as connection:
            await connection.execute(_KEEP, (scope.tenant, blob.sha256, media_type, result, ttl))

    async def kept_result(self, scope: Scope, blob: BlobRef, media_type: str) -> bytes | None:
        """The result that was kept and has not expired."""
        arguments = {"tenant": scope.tenant, "sha256": blob.sha256, "media_type": media_type}
        row = await self._database.row(_KEPT, arguments)
        return None if row is None else bytes(row["result"])

    async def sweep_results(self) -> int:
        """Remove those that expired, and those whose bytes no document has; gives how many."""
        async with self._database.connection() as connection:
            return (await connection.execute(_EXPIRE)).rowcount
