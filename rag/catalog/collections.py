"""Collections: a logical name, its live physical collection, its epoch and lexical statistics."""

# ruff: noqa: S608  identifiers are constants of this package, values are parameters
from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from psycopg.types.json import Jsonb

from rag.catalog.database import WRITE_SECONDS, Connection, Database
from rag.catalog.queue import Queue
from rag.catalog.rows import COLLECTION_COLUMNS, LIVE, collection_name, collection_view, dump_spec
from rag.core.catalog import CollectionView
from rag.core.errors import CollectionExistsError, CollectionNotFoundError, ConflictError
from rag.core.records import CollectionSpec
from rag.core.types import Scope

_BY_NAME = "c.tenant = %(tenant)s AND c.name = %(name)s"
_READ = f"SELECT {COLLECTION_COLUMNS} FROM {LIVE} WHERE {_BY_NAME}"
_READ_WITH_TERMS = (
    f"SELECT {COLLECTION_COLUMNS}, t.terms, t.counts FROM {LIVE} LEFT JOIN LATERAL "
    "(SELECT array_agg(k.term) AS terms, array_agg(k.chunks) AS counts FROM term_counts k "
    f"WHERE k.physical = p.id AND k.term = ANY(%(terms)s::bigint[])) t ON true WHERE {_BY_NAME}"
)
_REMOVAL = (
    """
    INSERT INTO blob_garbage (tenant, sha256, size) SELECT DISTINCT ON (b.sha256) d.tenant, b.sha256, b.size
    FROM documents d, LATERAL (VALUES (d.sha256, d.size), (d.text_sha256, d.text_size)) b (sha256, size)
    WHERE d.collection = %(collection)s AND b.sha256 IS NOT NULL ON CONFLICT DO NOTHING
    """,
    """
    DELETE FROM garbage g USING physical_collections p WHERE p.collection = %(collection)s AND g.physical = p.name
    """,
    """
    INSERT INTO garbage (tenant, physical)
    SELECT %(tenant)s, p.name FROM physical_collections p WHERE p.collection = %(collection)s
    """,
    "DELETE FROM documents WHERE collection = %(collection)s",
    "DELETE FROM collections WHERE id = %(collection)s",
)


class Collections:
    """Creates, reads and deletes collections."""

    def __init__(self, database: Database, queue: Queue) -> None:
        self._database = database
        self._queue = queue

    async def collection(self, scope: Scope, name: str, *, terms: Sequence[int] = ()) -> CollectionView:
        """One round trip: live physical collection, epoch, statistics, counts of ``terms``.

        ``documents`` counts those that are served. Raises :class:`CollectionNotFoundError`.
        """
        arguments = {"tenant": scope.tenant, "name": collection_name(name), "terms": list(terms)}
        row = await self._database.row(_READ_WITH_TERMS if terms else _READ, arguments)
        if row is None:
            raise CollectionNotFoundError(f"no collection {name!r}")
        counts = zip(row["terms"] or (), row["counts"] or (), strict=True) if terms else ()
        return collection_view(row, {term: count for term, count in counts if count > 0})

    async def create_collection(
        self, scope: Scope, name: str, *, embedding_model: str, spec: CollectionSpec
    ) -> tuple[CollectionView, bool]:
        """Create, or give back the one of the same settings with ``False``.

        Raises :class:`CollectionExistsError` for other settings, ``InvalidRequestError`` for a bad name.
        """
        normal = collection_name(name)
        dump = dump_spec(spec)
        try:
            existing = await self.collection(scope, normal)
        except CollectionNotFoundError:
            try:
                await self._insert(scope, normal, embedding_model, dump)
            except ConflictError:
                existing = await self.collection(scope, normal)
            else:
                return await self.collection(scope, normal), True
        if existing.embedding_model != embedding_model or dump_spec(existing.spec) != dump:
            raise CollectionExistsError(f"collection {normal!r} exists with other settings")
        return existing, False

    async def _insert(self, scope: Scope, name: str, embedding_model: str, spec: dict[str, object]) -> None:
        identity = uuid4()
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "INSERT INTO physical_collections (collection, name, embedding_model, spec) "
                "VALUES (%s, %s, %s, %s) RETURNING id",
                (identity, f"c_{identity.hex}", embedding_model, Jsonb(spec)),
            )
            made = await cursor.fetchone()
            await connection.execute(
                "INSERT INTO collections (id, tenant, name, live) VALUES (%s, %s, %s, %s)",
                (identity, scope.tenant, name, made and made["id"]),
            )

    async def list_collections(self, scope: Scope) -> list[CollectionView]:
        """All collections of the tenant, by name."""
        rows = await self._database.rows(
            f"SELECT {COLLECTION_COLUMNS} FROM {LIVE} WHERE c.tenant = %(tenant)s ORDER BY c.name",
            {"tenant": scope.tenant},
        )
        return [collection_view(row) for row in rows]

    async def delete_collection(self, scope: Scope, name: str) -> CollectionView:
        """Remove the rows at once; the physical collections become garbage. Gives what was deleted."""
        arguments = {"tenant": scope.tenant, "name": collection_name(name)}
        async with self._database.transaction(limit=WRITE_SECONDS) as connection:
            cursor = await connection.execute(f"{_READ} FOR UPDATE OF c", arguments)
            row = await cursor.fetchone()
            if row is None:
                raise CollectionNotFoundError(f"no collection {name!r}")
            view = collection_view(row)
            await _remove(connection, view)
            await self._queue.defer_sweep(connection)
        return view


async def _remove(connection: Connection, view: CollectionView) -> None:
    for statement in _REMOVAL:
        await connection.execute(statement, {"collection": view.id, "tenant": view.tenant})
