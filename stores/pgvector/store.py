"""The store: what each call of the port asks of the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np

from rag.core.errors import CollectionNotFoundError
from rag.core.filters import Filter
from rag.core.ports import Selector
from rag.core.records import (
    ByIds,
    Capabilities,
    CollectionSpec,
    Feature,
    Hit,
    Metric,
    Quantization,
    Record,
    RecordBatch,
    SearchParams,
    StoreStats,
)
from rag.core.types import Metadata, Scope, Terms, Vector, Vectors
from stores.fusion import leg_limit, reciprocal_rank_fusion
from stores.pgvector import schema, statements, writing
from stores.pgvector.connection import DEFAULT_EF_SEARCH, Connection, Row
from stores.pgvector.database import Database, open_database
from stores.pgvector.lexical import lexical_query
from stores.pgvector.options import read_options
from stores.pgvector.precision import check_halves, check_queries
from stores.pgvector.rows import hit_of, record_of, record_rows, term_rows
from stores.pgvector.selectivity import Selectivity
from stores.pgvector.tables import HIT_COLUMNS, Tables
from stores.validation import (
    check_batch,
    check_limit,
    check_metadata,
    check_name,
    check_scope,
    check_selector,
    check_spec,
    check_terms,
)

MAX_EF_SEARCH = 1000
CANDIDATES_PER_EF = 2
"""pgvector keeps this many times ``ef_search`` candidates. On real embeddings (11,426 × 128, cosine, m 16) its
recall@10 at 100 candidates is 0.907 and at 200 it is 0.962."""
CANDIDATES_PER_EF_FILTERED = 4
"""The same under a filter, which drops candidates after they were found: where one row in ten passes, recall@10
is 0.928 at 200 candidates and 0.970 at 400."""
_AT_ONCE = 64
"""Searches that one round trip carries: together they have the time of one call."""
_DISTANCE = len(HIT_COLUMNS)
_FOUND = _DISTANCE + 1
_SCORE = _FOUND + 1


@asynccontextmanager
async def open_store(options: Mapping[str, Any]) -> AsyncIterator[PgVectorStore]:
    """A store over ``options`` (``url, pool_size, timeout, schema``); raises ``ConfigurationError`` for wrong ones."""
    read = read_options(options)
    async with open_database(read) as database:
        yield PgVectorStore(database, schema_name=read.schema)


class PgVectorStore:
    """A ``VectorStore`` in one Postgres schema.

    ``exact_fallbacks`` counts the searches for which the vector index found fewer rows than there were.
    """

    kind = "pgvector"
    capabilities = Capabilities(
        features=frozenset(Feature),
        quantizations=frozenset({Quantization.NONE, Quantization.HALF}),
        max_dimension=schema.MAX_DIMENSION,
        reasons={Quantization.INT8: "pgvector has no type of 8-bit integers"},
    )
    """With half precision a vector may be twice as long as ``max_dimension``."""

    def __init__(self, database: Database, *, schema_name: str) -> None:
        self.exact_fallbacks = 0
        self._database = database
        self._schema = schema_name
        self._known: dict[str, Tables] = {}
        self._selectivity = Selectivity(self._rows)

    async def create_collection(self, collection: str, spec: CollectionSpec) -> None:
        """See ``VectorStore``."""
        check_spec(spec, _HALVED if spec.quantization is Quantization.HALF else self.capabilities)
        tables = Tables(schema=self._schema, collection=check_name(collection), spec=spec)
        async with self._database.transaction() as connection:
            await schema.create(connection, tables)

    async def drop_collection(self, collection: str) -> None:
        """See ``VectorStore``."""
        self._known.pop(check_name(collection), None)
        async with self._database.transaction() as connection:
            await schema.drop(connection, self._schema, collection)

    async def describe_collection(self, collection: str) -> CollectionSpec:
        """See ``VectorStore``."""
        self._known.pop(check_name(collection), None)
        return (await self._tables(collection)).spec

    async def upsert(self, collection: str, scope: Scope, batch: RecordBatch) -> None:
        """See ``VectorStore``."""
        tables = await self._tables(collection)
        if not len(batch):
            return
        records, terms = await asyncio.to_thread(_staged, tables, scope, batch)
        greatest = max((abs(weight) for each in batch.terms for weight in each.values()), default=0.0)
        async with self._changing(collection, scope) as connection:
            await writing.write_records(connection, tables, records)
            await writing.write_terms(connection, tables, terms, greatest)

    async def update_metadata(self, collection: str, scope: Scope, document: UUID, metadata: Metadata) -> None:
        """See ``VectorStore``."""
        tables = await self._tables(collection)
        check_scope(scope)
        typed = check_metadata(tables.spec, [metadata])[0]
        async with self._changing(collection, scope) as connection:
            await writing.write_metadata(connection, tables, scope, document, typed)

    async def get(self, collection: str, scope: Scope, ids: Sequence[UUID]) -> list[Record]:
        """See ``VectorStore``."""
        rows = await self._selected(collection, scope, ByIds(ids=tuple(ids)))
        found = {record.id: record for record in await self._records(rows, statements.records(rows))}
        return [found[id] for id in ids if id in found]

    async def delete(self, collection: str, scope: Scope, selector: Selector) -> None:
        """See ``VectorStore``."""
        statement = statements.delete(await self._selected(collection, scope, selector))
        async with self._changing(collection, scope) as connection:
            await connection.execute(statement.sql.encode(), statement.parameters)

    async def count(self, collection: str, scope: Scope, selector: Selector | None = None) -> int:
        """See ``VectorStore``."""
        rows = await self._selected(collection, scope, selector)
        return int((await self._rows(rows, statements.count(rows)))[0][0])

    async def scroll(
        self, collection: str, scope: Scope, *, selector: Selector | None = None, batch_size: int = 256
    ) -> AsyncIterator[list[Record]]:
        """See ``VectorStore``; each batch is a query of its own."""
        check_limit(batch_size)
        rows = await self._selected(collection, scope, selector)
        last = None
        while batch := await self._records(rows, statements.records(rows, after=last, limit=batch_size)):
            yield batch
            last = batch[-1].id
            if len(batch) < batch_size:
                return

    async def search(
        self,
        collection: str,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        filter: Filter | None = None,
        params: SearchParams = SearchParams(),  # noqa: B008  frozen
    ) -> list[Hit]:
        """See ``Searcher``; limits above 1000 are answered exactly."""
        query = np.asarray(vector).reshape(1, -1)
        (hits,) = await self.search_many(collection, scope, query, limit=limit, filter=filter, params=params)
        return hits

    async def search_many(
        self,
        collection: str,
        scope: Scope,
        vectors: Vectors,
        *,
        limit: int,
        filter: Filter | None = None,
        params: SearchParams = SearchParams(),  # noqa: B008  frozen
    ) -> list[list[Hit]]:
        """See ``Searcher``; the searches of up to 64 vectors come in one round trip."""
        rows = await self._selected(collection, scope, filter, limit=limit)
        queries = check_queries(rows.tables, vectors)
        exact, ef_search = await self._effort(rows, limit, params)
        found: list[list[Row]] = []
        for first in range(0, len(queries), _AT_ONCE):
            batch = list(queries[first : first + _AT_ONCE])
            if exact:
                found += await self._scanned(rows, batch, limit=limit)
            else:
                found += await self._nearest(rows, batch, limit=limit, ef_search=ef_search)
        return [_dense_hits(rows.tables, each) for each in found]

    async def _scanned(self, rows: statements.Rows, queries: Sequence[Vector], *, limit: int) -> list[list[Row]]:
        each = [statements.scanned(rows, query, limit=limit) for query in queries]
        return await self._rows_of_each(rows, each, ef_search=DEFAULT_EF_SEARCH)

    async def _nearest(
        self, rows: statements.Rows, queries: Sequence[Vector], *, limit: int, ef_search: int
    ) -> list[list[Row]]:
        """By the index and, where that gives too few, by a scan of all rows of the scope."""
        each = [statements.nearest(rows, query, limit=limit) for query in queries]
        found = await self._rows_of_each(rows, each, ef_search=ef_search)
        short = [place for place, one in enumerate(found) if len(one) < limit]
        if short:
            missed = [queries[place] for place in short]
            scanned = await self._scanned(rows, missed, limit=limit)
            for place, one in zip(short, scanned, strict=True):
                self.exact_fallbacks += len(one) > len(found[place])
                found[place] = one
        return found

    async def lexical_search(
        self, collection: str, scope: Scope, terms: Terms, *, limit: int, filter: Filter | None = None
    ) -> list[Hit]:
        """See ``Searcher``."""
        rows = await self._selected(collection, scope, filter, limit=limit)
        if not check_terms(terms):
            return []
        found = await self._rows(rows, statements.lexical(rows, lexical_query(terms), limit=limit))
        return _ranked([hit_of(row, row[_DISTANCE], rows.tables.moments) for row in found])

    async def hybrid_search(
        self,
        collection: str,
        scope: Scope,
        vector: Vector,
        terms: Terms,
        *,
        limit: int,
        filter: Filter | None = None,
        params: SearchParams = SearchParams(),  # noqa: B008  frozen
    ) -> list[Hit]:
        """See ``Searcher``; both legs come in one round trip, each ``stores.fusion.leg_limit`` deep."""
        check_limit(limit)
        depth = leg_limit(limit)
        if not check_terms(terms):
            nearest = await self.search(collection, scope, vector, limit=depth, filter=filter, params=params)
            return reciprocal_rank_fusion([nearest], limit=limit)
        rows = await self._selected(collection, scope, filter, limit=limit)
        (query,) = check_queries(rows.tables, np.asarray(vector).reshape(1, -1))
        exact, ef_search = await self._effort(rows, depth, params)
        statement = statements.hybrid(rows, query, lexical_query(terms), limit=depth, exact=exact)
        found = await self._rows(rows, statement, ef_search=ef_search)
        near = [row for row in found if row[_DISTANCE] is not None]
        self._count_fallback([row[_FOUND] for row in near])
        matching = [hit_of(row, row[_SCORE], rows.tables.moments) for row in found if row[_SCORE] is not None]
        return reciprocal_rank_fusion([_dense_hits(rows.tables, near), _ranked(matching)], limit=limit)

    async def wait_indexed(self, collection: str, *, timeout: float) -> None:
        """See ``VectorStore``; HNSW is maintained by each write, so there is nothing to wait for."""
        del timeout
        await self.describe_collection(collection)

    async def stats(self, collection: str) -> StoreStats:
        """See ``VectorStore``; bytes are those of both tables with their indexes."""
        tables = await self._tables(collection)
        sql = (
            f"select (select count(*) from {tables.records}), "
            f"pg_total_relation_size('{tables.records}') + pg_total_relation_size('{tables.terms}')"
        )
        rows, size = (await self._service_rows(tables, sql))[0]
        return StoreStats(rows=rows, indexed=rows, bytes=size)

    async def ping(self) -> None:
        """See ``VectorStore``."""
        await self._database.query("select 1", {})

    async def _tables(self, collection: str) -> Tables:
        if known := self._known.get(check_name(collection)):
            return known
        statement, parameters = schema.stored_spec(self._schema, collection)
        rows = await self._database.query(statement, parameters, collection=collection)
        if not rows:
            raise CollectionNotFoundError(f"no collection {collection}")
        spec, walled = rows[0]
        tables = Tables(schema=self._schema, collection=collection, spec=CollectionSpec.from_json(spec))
        if not walled:
            async with self._database.transaction(collection=collection) as connection:
                await schema.protect(connection, tables)
        self._known[collection] = tables
        return tables

    async def _selected(
        self, collection: str, scope: Scope, selector: Selector | None, *, limit: int = 1
    ) -> statements.Rows:
        tables = await self._tables(collection)
        check_scope(scope)
        check_limit(limit)
        check_selector(selector, tables.spec.filterable)
        return statements.rows_of(tables, scope, selector)

    async def _records(self, rows: statements.Rows, statement: statements.Statement) -> list[Record]:
        return [record_of(row, rows.tables.moments) for row in await self._rows(rows, statement)]

    async def _rows(
        self, rows: statements.Rows, statement: statements.Statement, *, ef_search: int = DEFAULT_EF_SEARCH
    ) -> list[Row]:
        (found,) = await self._rows_of_each(rows, [statement], ef_search=ef_search)
        return found

    async def _rows_of_each(
        self, rows: statements.Rows, each: Sequence[statements.Statement], *, ef_search: int
    ) -> list[list[Row]]:
        """The rows of statements that differ in their parameters alone."""
        collection = rows.tables.collection
        with self._forgetting(collection):
            return await self._database.query_each(
                each[0].sql,
                [statement.parameters for statement in each],
                tenant=rows.tenant,
                collection=collection,
                ef_search=ef_search,
            )

    @asynccontextmanager
    async def _changing(self, collection: str, scope: Scope) -> AsyncIterator[Connection]:
        with self._forgetting(collection):
            async with self._database.transaction(tenant=scope.tenant, collection=collection) as connection:
                yield connection

    async def _service_rows(self, tables: Tables, sql: str) -> list[Row]:
        with self._forgetting(tables.collection):
            return await self._database.query(sql, {}, collection=tables.collection)

    @contextmanager
    def _forgetting(self, collection: str) -> Iterator[None]:
        """Forget what is known of a collection that turns out to be gone."""
        try:
            yield
        except CollectionNotFoundError:
            self._known.pop(collection, None)
            raise

    async def _effort(self, rows: statements.Rows, limit: int, params: SearchParams) -> tuple[bool, int]:
        """Whether to compare all rows, and else the candidates that HNSW keeps: never fewer than are asked for.

        Few rows are compared: their neighbours in the graph do not pass the filter, and a walk from one of them
        to the next misses some or takes longer.
        """
        factor = CANDIDATES_PER_EF_FILTERED if rows.selection else CANDIDATES_PER_EF
        candidates = min(max(params.ef_search * factor, limit, 1), MAX_EF_SEARCH)
        exact = params.exact or limit > MAX_EF_SEARCH
        if not exact and rows.selection:
            exact = await self._selectivity.few(rows)
        return exact, candidates

    def _count_fallback(self, found: Sequence[int | None]) -> None:
        if found and found[0] is not None and found[0] < len(found):
            self.exact_fallbacks += 1


_HALVED = replace(PgVectorStore.capabilities, max_dimension=schema.MAX_HALF_DIMENSION)


def _staged(tables: Tables, scope: Scope, batch: RecordBatch) -> tuple[list[Row], list[Row]]:
    vectors, metadata = check_batch(tables.spec, scope, batch)
    check_halves(tables, vectors)
    return record_rows(tables, batch, vectors, metadata), term_rows(batch)


def _dense_hits(tables: Tables, rows: Sequence[Row]) -> list[Hit]:
    cosine = tables.spec.metric is Metric.COSINE
    return _ranked([hit_of(row, _similarity(row[_DISTANCE], cosine=cosine), tables.moments) for row in rows])


def _similarity(distance: float, *, cosine: bool) -> float:
    return max(-1.0, min(1.0, 1.0 - distance)) if cosine else 0.0 - distance


def _ranked(hits: list[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))
