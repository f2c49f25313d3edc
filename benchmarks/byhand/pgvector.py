"""PGVector by psycopg: binary COPY into a temporary table, one INSERT with the conflict rule, prepared searches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any

import orjson
import psycopg
from pgvector import SparseVector
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb, set_json_dumps, set_json_loads

from benchmarks.byhand.client import COLLECTION, FIELD
from rag.core.records import RecordBatch, SearchParams
from rag.core.types import Vector, Vectors
from stores.pgvector.database import SESSION, SET_SESSION
from stores.pgvector.selectivity import FEW_ROWS
from stores.pgvector.store import CANDIDATES_PER_EF_FILTERED

RECORDS, TERMS = f'anchorage_vectors."r_{COLLECTION}"', f'anchorage_vectors."t_{COLLECTION}"'
HIT = "id, document, generation, place, body, begins, ends, page, headings, quality, metadata"
RECORD_COLUMNS = f"{HIT}, tenant, acl, embedding, f0"
RECORD_TYPES = (
    "uuid", "uuid", "int8", "int4", "text", "int8", "int8", "int4", "text[]", "text", "json", "text", "text[]",
    "vector", "int8",
)  # fmt: skip
WEIGHTS = ("weights0", "weights1", "weights2", "weights3", "weights4")
WEIGHT_RANGE = 10**9
_EFFORT_FILTERED = (
    f"SELECT set_config('hnsw.ef_search', '{SearchParams().ef_search * CANDIDATES_PER_EF_FILTERED:d}', true)".encode()
)
"""As many candidates as the store keeps under a filter, for the statement that follows in the pipeline."""
TERM_COLUMNS = f"id, tenant, acl, terms, {', '.join(WEIGHTS)}"
TERM_TYPES = ("uuid", "text", "text[]", "int4[]", *("sparsevec" for _ in WEIGHTS))


class PgVectorByHand:
    """See ``Client``. Its login owns the tables, so that row-level security is no part of its searches."""

    def __init__(self, connections: Sequence[psycopg.Connection]) -> None:
        self._connections = connections
        self._few: dict[int, bool] = {}

    def load(self, batch: RecordBatch) -> None:
        """See ``Client``; one transaction."""
        with self._connections[0].transaction():
            self._copy(RECORDS, RECORD_COLUMNS, RECORD_TYPES, _records(batch))
            self._copy(TERMS, TERM_COLUMNS, TERM_TYPES, _terms(batch))

    def settle(self) -> None:
        """See ``Client``; the index is part of each write, the rest is the server's usual upkeep."""
        for table in (RECORDS, TERMS):
            self._connections[0].execute(f"VACUUM (ANALYZE) {table}".encode())

    def search(self, vector: Vector, *, limit: int, below: int | None) -> int:
        """See ``Client``."""
        return _search(self._connections[0], vector, limit, below, exact=self._passes_few(below))

    def search_all(self, vectors: Vectors, *, limit: int, below: int | None, workers: int) -> Sequence[int]:
        """See ``Client``; a connection a worker."""
        if workers == 1:
            return [self.search(vector, limit=limit, below=below) for vector in vectors]
        exact = self._passes_few(below)
        free: SimpleQueue[psycopg.Connection] = SimpleQueue()
        for connection in self._connections[:workers]:
            free.put(connection)

        def search(vector: Vector) -> int:
            connection = free.get()
            try:
                return _search(connection, vector, limit, below, exact=exact)
            finally:
                free.put(connection)

        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(search, vectors))

    def _passes_few(self, below: int | None) -> bool:
        """Whether the rows are compared, as the store does, and as one must to find the nearest of few."""
        if below is not None and below not in self._few:
            counted = self._connections[0].execute(f"SELECT count(*) FROM {RECORDS} WHERE f0 < %s".encode(), (below,))
            self._few[below] = counted.fetchall()[0][0] <= FEW_ROWS
        return below is not None and self._few[below]

    def _copy(self, table: str, columns: str, types: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
        connection = self._connections[0]
        connection.execute(f"CREATE TEMPORARY TABLE staged (LIKE {table}) ON COMMIT DROP".encode())
        with connection.cursor().copy(f"COPY staged ({columns}) FROM STDIN (FORMAT BINARY)".encode()) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)
        replaced = ", ".join(
            f"{name} = excluded.{name}" for name in columns.split(", ") if name not in ("id", "tenant")
        )
        connection.execute(
            f"INSERT INTO {table} ({columns}) SELECT {columns} FROM staged ORDER BY id "
            f"ON CONFLICT (tenant, id) DO UPDATE SET {replaced}".encode()
        )
        connection.execute(b"DROP TABLE staged")


@contextmanager
def open_byhand(url: str, *, connections: int) -> Iterator[PgVectorByHand]:
    """Connections under the session settings of the store."""
    with ExitStack() as stack:
        opened = [stack.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(connections)]
        for connection in opened:
            register_vector(connection)
            set_json_loads(orjson.loads, connection)
            set_json_dumps(orjson.dumps, connection)
            connection.execute(SET_SESSION, [Jsonb(dict(SESSION))])
        yield PgVectorByHand(opened)


def _search(connection: psycopg.Connection, vector: Vector, limit: int, below: int | None, *, exact: bool) -> int:
    condition = "" if below is None else " AND f0 < %(below)s"
    statement = (
        f"SELECT {HIT}, embedding <=> %(vector)s AS distance FROM {RECORDS} "
        f"WHERE tenant = %(tenant)s AND (acl = '{{}}' OR acl && %(groups)s::text[]){condition} "
        f"ORDER BY {'(embedding <=> %(vector)s) + 0, id' if exact else 'distance'} LIMIT %(limit)s"
    )
    parameters = {"vector": vector, "tenant": "default", "groups": [], "limit": limit, "below": below}
    with connection.cursor(binary=True) as cursor:
        if below is None or exact:
            cursor.execute(statement.encode(), parameters, prepare=True)
        else:
            with connection.pipeline():
                connection.execute(_EFFORT_FILTERED, prepare=True)
                cursor.execute(statement.encode(), parameters, prepare=True)
        return len(cursor.fetchall())


def _records(batch: RecordBatch) -> Iterator[Sequence[Any]]:
    for i in range(len(batch)):
        yield (
            batch.ids[i], batch.documents[i], batch.generations[i], batch.indexes[i], batch.texts[i], batch.starts[i],
            batch.ends[i], batch.pages[i], list(batch.headings[i]), batch.qualities[i].value, batch.metadata[i],
            batch.tenant, list(batch.acls[i]), batch.vectors[i], batch.metadata[i][FIELD],
        )  # fmt: skip


def _terms(batch: RecordBatch) -> Iterator[Sequence[Any]]:
    for i in range(len(batch)):
        parts: list[dict[int, float]] = [{} for _ in WEIGHTS]
        for term, weight in batch.terms[i].items():
            parts[term // WEIGHT_RANGE][term % WEIGHT_RANGE] = weight
        terms = [term - 2**31 for term in sorted(batch.terms[i])]
        weights = [SparseVector(part, WEIGHT_RANGE) for part in parts]
        yield (batch.ids[i], batch.tenant, list(batch.acls[i]), terms, *weights)
