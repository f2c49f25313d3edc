"""The catalog: the authority on what exists and what is served, composed of its parts."""

# ruff: noqa: S608  identifiers are constants of this package, values are parameters
from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from uuid import UUID

from rag.catalog.backlog import Backlog
from rag.catalog.collections import Collections
from rag.catalog.database import Database, open_database
from rag.catalog.documents import Documents
from rag.catalog.garbage import GarbageList
from rag.catalog.jobs import Jobs
from rag.catalog.migrate import migrate
from rag.catalog.parse_results import ParseResults
from rag.catalog.publish import Ingestion
from rag.catalog.queue import Queue
from rag.catalog.restoration import Restoration
from rag.catalog.rows import LIVE, VISIBLE, groups
from rag.core.answers import DocumentLabel
from rag.core.catalog import BacklogLimits, PromotionPolicy
from rag.core.errors import CollectionNotFoundError
from rag.core.types import Scope

# IS TRUE: only the ids may choose the index, or a planner without statistics reads the whole tenant.
_CURRENT = (
    "SELECT d.id, d.generation, d.source, d.title, d.media_type FROM documents d "
    f"WHERE d.id = ANY(%(ids)s::text::uuid[]) AND (d.tenant = %(tenant)s) IS TRUE AND {VISIBLE}"
)
_CURRENT_IN = (
    f"SELECT d.* FROM {LIVE} LEFT JOIN ({_CURRENT}) d ON true WHERE p.name = %(physical)s AND c.tenant = %(tenant)s"
)


class Catalog(Collections, Documents, Ingestion, GarbageList, Jobs, ParseResults, Restoration):
    """Everything the catalog does; see each part. Implements ``Corpus`` and ``IngestCatalog``."""

    def __init__(
        self,
        database: Database,
        queue: Queue,
        *,
        max_attempts: int,
        promotion: PromotionPolicy,
        backlog: BacklogLimits,
    ) -> None:
        Ingestion.__init__(self, database, queue, max_attempts=max_attempts, promotion=promotion)
        self.queue = queue
        self._backlog = Backlog(database, backlog)

    async def current(
        self, scope: Scope, generations: Collection[tuple[UUID, int]], *, physical: str | None = None
    ) -> Mapping[UUID, DocumentLabel]:
        """One round trip: labels of the documents whose served generation is the given one.

        Documents that the scope may not read are absent; what is absent must not be served. Raises
        ``CollectionNotFoundError`` when ``physical`` is given and no collection of the tenant lives in it now.
        """
        if not generations and physical is None:
            return {}
        wanted = set(generations)
        # An array literal: a hundred UUID parameters cost the client more than the query costs the server.
        ids = "{" + ",".join({id.hex for id, _ in wanted}) + "}"
        arguments = {"ids": ids, "tenant": scope.tenant, "groups": groups(scope), "physical": physical}
        rows = await self._database.rows(_CURRENT if physical is None else _CURRENT_IN, arguments)
        if not rows and physical is not None:
            raise CollectionNotFoundError(f"no collection lives in {physical}")
        return {
            row["id"]: DocumentLabel(source=row["source"], title=row["title"], media_type=row["media_type"])
            for row in rows
            if (row["id"], row["generation"]) in wanted
        }

    async def admit(self, size: int) -> None:
        """Before an upload of ``size`` bytes: raises ``BacklogFullError`` while too much waits already."""
        await self._backlog.admit(size)

    async def check_backlog(self) -> None:
        """Before the bytes of an upload have come: raises ``BacklogFullError`` while too much waits already."""
        await self._backlog.check()

    async def ping(self) -> None:
        """Raises ``CatalogError`` when the database does not answer."""
        await self._database.row("SELECT 1 AS one")


@asynccontextmanager
async def open_catalog(
    url: str,
    *,
    pool_size: int = 10,
    timeout: float = 5.0,
    max_attempts: int = 5,
    promotion: PromotionPolicy = PromotionPolicy(),  # noqa: B008  frozen
    backlog: BacklogLimits = BacklogLimits(),  # noqa: B008  frozen
) -> AsyncIterator[Catalog]:
    """Bring the database at ``url`` to this release's schema and open the catalog on it.

    ``timeout``: seconds a call may take. ``max_attempts``: claims of a document before it is given up.
    ``promotion``: when degraded documents are parsed again. ``backlog``: how much may wait.
    Raises ``CatalogError`` when the database cannot be reached, ``ConfigurationError`` when it cannot be used.
    """
    await migrate(url)
    async with open_database(url, pool_size=pool_size, timeout=timeout) as database:
        queue = Queue(database)
        await queue.open()
        yield Catalog(database, queue, max_attempts=max_attempts, promotion=promotion, backlog=backlog)
