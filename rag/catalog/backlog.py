"""Back pressure: uploads are refused while too much waits."""

from __future__ import annotations

import asyncio
import time

from rag.catalog.database import Database
from rag.core.catalog import BacklogLimits
from rag.core.errors import BacklogFullError

_FRESH_SECONDS = 1.0
_RETRY_AFTER = 5.0

_WAITING = """
SELECT count(*) AS documents, coalesce(sum(size), 0)::bigint AS bytes
FROM (SELECT size FROM documents WHERE state = 'queued' LIMIT %(most)s) waiting
"""


class Backlog:
    """What waits, counted at most once a second; what was admitted since is added."""

    def __init__(self, database: Database, limits: BacklogLimits) -> None:
        self._database = database
        self._limits = limits
        self._counted_at = float("-inf")
        self._documents, self._bytes = 0, 0
        self._counting = asyncio.Lock()

    async def admit(self, size: int) -> None:
        """Count a document of ``size`` bytes in. Raises as :meth:`check`."""
        await self.check(size)
        self._documents += 1
        self._bytes += size

    async def check(self, size: int = 0) -> None:
        """Whether a document of ``size`` bytes may come. Raises ``BacklogFullError``, with when to come back.

        A document that is larger than all that may wait is taken when nothing waits.
        """
        async with self._counting:
            if time.monotonic() - self._counted_at >= _FRESH_SECONDS:
                await self._count()
        if self._documents >= self._limits.documents or 0 < self._bytes > self._limits.bytes - size:
            raise BacklogFullError(
                f"{self._documents} documents of {self._bytes} bytes wait to be ingested; try again later",
                retry_after=_RETRY_AFTER,
            )

    async def _count(self) -> None:
        row = await self._database.row(_WAITING, {"most": self._limits.documents})
        self._documents, self._bytes = (row["documents"], row["bytes"]) if row else (0, 0)
        self._counted_at = time.monotonic()
