"""The vector store on Milvus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

import numpy as np
from pymilvus import MilvusException

from rag.core.errors import CollectionExistsError, CollectionNotFoundError
from rag.core.filters import Filter
from rag.core.ports import Selector
from rag.core.records import (
    ByDocument,
    ByIds,
    Capabilities,
    CollectionSpec,
    Feature,
    Hit,
    Record,
    RecordBatch,
    SearchParams,
    StoreStats,
)
from rag.core.types import Metadata, Scope, Terms, Vector, Vectors
from stores.fusion import leg_limit, reciprocal_rank_fusion
from stores.milvus import ranking
from stores.milvus.calls import Calls
from stores.milvus.connection import Connection, open_connection
from stores.milvus.crowds import Crowds
from stores.milvus.engine import capabilities_of
from stores.milvus.filters import Where, where
from stores.milvus.lite import shared_lite
from stores.milvus.nearest import compare_here, nearest
from stores.milvus.options import Options, read_options
from stores.milvus.rewriting import rewrite
from stores.milvus.rows import Row, metadata_columns, record_of, rows_of
from stores.milvus.schema import RECORD_COLUMNS, Table, stored_spec
from stores.validation import (
    check_batch,
    check_feature,
    check_limit,
    check_metadata,
    check_name,
    check_scope,
    check_selector,
    check_spec,
    check_terms,
    check_vectors,
)

Result = TypeVar("Result")


@asynccontextmanager
async def open_store(options: Mapping[str, Any]) -> AsyncIterator[MilvusStore]:
    """A store on the server or in the folder that the options name; see ``stores.milvus.options``.

    A server may come up later: it is called until it answers, and until then only what every version can do is
    offered.
    """
    checked = read_options(options)
    async with AsyncExitStack() as stack:
        uri = checked.uri
        if checked.path is not None:
            uri = await stack.enter_async_context(shared_lite(checked.path))
        connection = await stack.enter_async_context(open_connection(str(uri), checked))
        yield MilvusStore(connection, checked)


class MilvusStore:
    """A ``VectorStore``. ``exact_fallbacks`` counts the searches that the index left short of their limit."""

    kind = "milvus"

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._known: dict[str, Table] = {}
        self._crowds = Crowds()
        self._orders: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.exact_fallbacks = 0

    @property
    def capabilities(self) -> Capabilities:
        """See ``VectorStore``; more once a server has answered."""
        return capabilities_of(self._connection.engine)

    async def create_collection(self, collection: str, spec: CollectionSpec) -> None:
        """See ``VectorStore``."""
        check_name(collection)
        engine = await self._connection.ready()
        check_spec(spec, self.capabilities)
        table = Table(name=collection, engine=engine, spec=spec)
        schema = table.schema()

        def create(calls: Calls) -> CollectionSpec:
            if not calls.exists(collection):
                try:
                    calls.create(table, schema, partitions=self._options.partitions)
                except MilvusException:
                    # Someone else may have created it meanwhile; whether alike is seen below.
                    if not calls.exists(collection):
                        raise
            return stored_spec(calls.describe(collection))

        self._known.pop(collection, None)
        if await self._connection.write(create, collection) != spec:
            raise CollectionExistsError(f"the collection {collection} has another spec")
        await self._connection.write(lambda calls: calls.prepare(table, replicas=self._options.replicas), collection)
        self._known[collection] = table

    async def drop_collection(self, collection: str) -> None:
        """See ``VectorStore``."""
        self._known.pop(check_name(collection), None)
        await self._connection.write(lambda calls: calls.drop(collection), collection)

    async def describe_collection(self, collection: str) -> CollectionSpec:
        """See ``VectorStore``."""
        self._known.pop(check_name(collection), None)
        return (await self._table(collection)).spec

    async def upsert(self, collection: str, scope: Scope, batch: RecordBatch) -> None:
        """See ``VectorStore``."""
        table = await self._table(collection)
        if not len(batch):
            return

        def write(calls: Calls) -> None:
            vectors, metadata = check_batch(table.spec, scope, batch)
            calls.upsert(collection, rows_of(table, batch, vectors, metadata))

        await self._write(table, write)

    async def update_metadata(self, collection: str, scope: Scope, document: UUID, metadata: Metadata) -> None:
        """See ``VectorStore``; reads the rows and writes them again, see ``stores.milvus.rewriting``."""
        table = await self._table(collection)
        check_scope(scope)
        changed = metadata_columns(table, check_metadata(table.spec, [metadata])[0])
        chosen = where(table.engine, table.columns, scope.as_service(), ByDocument(document=document))
        assert chosen is not None  # noqa: S101  a document is a condition

        async with self._order(collection):
            await self._write(table, lambda calls: rewrite(calls, collection, chosen, changed))

    async def get(self, collection: str, scope: Scope, ids: Sequence[UUID]) -> list[Record]:
        """See ``VectorStore``."""
        found: dict[UUID, Record] = {}
        for start in range(0, max(1, len(ids)), ranking.PAGE_ROWS):
            some = tuple(dict.fromkeys(ids[start : start + ranking.PAGE_ROWS]))
            table, chosen = await self._chosen(collection, scope, ByIds(ids=some))
            if chosen is not None:
                found |= {one.id: one for one in await self._page(table, chosen, limit=len(some))}
        return [found[id] for id in ids if id in found]

    async def delete(self, collection: str, scope: Scope, selector: Selector) -> None:
        """See ``VectorStore``."""
        table, chosen = await self._chosen(collection, scope, selector)
        if chosen is not None:
            async with self._order(collection):
                await self._write(table, lambda calls: calls.delete(collection, chosen))

    async def count(self, collection: str, scope: Scope, selector: Selector | None = None) -> int:
        """See ``VectorStore``; reads at the strongest consistency, which waits for the server's next tick."""
        table, chosen = await self._chosen(collection, scope, selector)
        return 0 if chosen is None else await self._read(table, lambda calls: calls.count(collection, chosen))

    async def scroll(
        self, collection: str, scope: Scope, *, selector: Selector | None = None, batch_size: int = 256
    ) -> AsyncIterator[list[Record]]:
        """See ``VectorStore``; each batch is a query of its own, a large one several."""
        check_limit(batch_size)
        table, rest = await self._chosen(collection, scope, selector)
        while rest is not None:
            batch: list[Record] = []
            while rest is not None and len(batch) < batch_size:
                limit = min(ranking.PAGE_ROWS, batch_size - len(batch))
                rows = await self._read(table, _page_of(table, rest, limit))
                batch += [record_of(row, table.moments) for row in rows]
                rest = rest.after(rows[-1]["pk"]) if len(rows) == limit else None
            if batch:
                yield batch

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
        """See ``Searcher`` and ``stores.milvus.nearest``; an exact search reads the vectors and compares them here."""
        vectors = np.asarray(vector, dtype=np.float32).reshape(1, -1)
        (hits,) = await self.search_many(collection, scope, vectors, limit=limit, filter=filter, params=params)
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
        """See ``Searcher``; one request for all, unless the search is exact."""
        table, chosen = await self._chosen(collection, scope, filter, limit=limit)
        queries = check_vectors(table.spec, vectors)
        if chosen is None or not len(queries):
            return [[] for _ in queries]

        def search(calls: Calls) -> list[list[Hit]]:
            hits = nearest(
                calls, table, chosen, queries, limit=limit, params=params, filtered=filter is not None,
                crowds=self._crowds,
            )  # fmt: skip
            return self._filled(calls, table, chosen, queries, hits, limit=limit)

        return await self._read(table, search)

    async def lexical_search(
        self, collection: str, scope: Scope, terms: Terms, *, limit: int, filter: Filter | None = None
    ) -> list[Hit]:
        """See ``Searcher``; raises ``InvalidRequestError`` where the server has no sparse vectors."""
        table, chosen = await self._chosen(collection, scope, filter, limit=limit)
        check_feature(Feature.LEXICAL, self.capabilities)
        if not check_terms(terms) or chosen is None:
            return []
        return await self._read(table, lambda calls: ranking.lexical(calls, table, chosen, terms, limit=limit))

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
        """See ``Searcher``; both legs at once, each ``stores.fusion.leg_limit`` deep."""
        await self._chosen(collection, scope, filter, limit=limit)
        check_feature(Feature.LEXICAL, self.capabilities)
        depth = leg_limit(limit)
        legs = await asyncio.gather(
            self.search(collection, scope, vector, limit=depth, filter=filter, params=params),
            self.lexical_search(collection, scope, terms, limit=depth, filter=filter),
            return_exceptions=True,
        )
        return reciprocal_rank_fusion([_found(leg) for leg in legs], limit=limit)

    async def wait_indexed(self, collection: str, *, timeout: float) -> None:
        """See ``VectorStore``; has what is in memory sealed first, since the index covers sealed rows only."""
        table = await self._table(collection)
        await self._read(table, lambda calls: calls.wait_indexed(collection, timeout=timeout))

    async def stats(self, collection: str) -> StoreStats:
        """See ``VectorStore``; ``bytes`` are those of the vectors, as Milvus does not tell the others."""
        table = await self._table(collection)
        rows, (covered, _) = await self._read(
            table, lambda calls: (calls.count(collection), calls.index_state(collection))
        )
        width = table.spec.dimension * (2 if table.half else 4)
        return StoreStats(rows=rows, indexed=min(rows, covered), bytes=rows * width)

    async def ping(self) -> None:
        """See ``VectorStore``."""
        await self._connection.ping()

    async def _table(self, collection: str) -> Table:
        if known := self._known.get(check_name(collection)):
            return known
        engine = await self._connection.ready()
        spec = stored_spec(await self._connection.read(lambda calls: calls.describe(collection)))
        return self._known.setdefault(collection, Table(name=collection, engine=engine, spec=spec))

    async def _chosen(
        self, collection: str, scope: Scope, selector: Selector | None, *, limit: int = 1
    ) -> tuple[Table, Where | None]:
        table = await self._table(collection)
        check_scope(scope)
        check_limit(limit)
        check_selector(selector, table.spec.filterable)
        return table, where(table.engine, table.columns, scope, selector)

    async def _page(self, table: Table, chosen: Where, *, limit: int) -> list[Record]:
        rows = await self._read(table, _page_of(table, chosen, limit))
        return [record_of(row, table.moments) for row in rows]

    async def _read(self, table: Table, work: Callable[[Calls], Result]) -> Result:
        with self._forgetting(table):
            return await self._connection.read(work, table.name)

    async def _write(self, table: Table, work: Callable[[Calls], None]) -> None:
        with self._forgetting(table):
            try:
                await self._connection.write(work, table.name)
            finally:
                self._crowds.forget(table.name)

    def _order(self, collection: str) -> asyncio.Lock:
        """Held by those whose writes may not come between each other's reads and writes."""
        return self._orders.setdefault(collection, asyncio.Lock())

    @contextmanager
    def _forgetting(self, table: Table) -> Iterator[None]:
        """Forget the table when it turns out to be gone."""
        try:
            yield
        except CollectionNotFoundError:
            self._known.pop(table.name, None)
            raise

    def _filled(
        self, calls: Calls, table: Table, chosen: Where, queries: Vectors, hits: list[list[Hit]], *, limit: int
    ) -> list[list[Hit]]:
        """The hits, with an exact answer in the place of each that is short although more records pass."""
        fewest = min(map(len, hits))
        if fewest == limit or calls.visible(table.name, chosen) <= fewest:
            return hits
        short = [i for i, each in enumerate(hits) if len(each) < limit]
        self.exact_fallbacks += len(short)
        exact = dict(zip(short, compare_here(calls, table, chosen, queries[short], limit=limit), strict=True))
        return [exact.get(i, each) for i, each in enumerate(hits)]


def _found(leg: list[Hit] | BaseException) -> list[Hit]:
    if isinstance(leg, BaseException):
        raise leg
    return leg


def _page_of(table: Table, chosen: Where, limit: int) -> Callable[[Calls], list[Row]]:
    return lambda calls: calls.page(table.name, chosen, RECORD_COLUMNS, limit=limit)
