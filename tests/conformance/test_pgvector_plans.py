"""What PostgreSQL does for a search: which indexes it reads, in how many round trips, under which settings."""

from __future__ import annotations

import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import psycopg
import pytest
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from rag.core.errors import CollectionNotFoundError, StoreError
from rag.core.filters import Compare
from rag.core.records import Hit, SearchParams
from stores.pgvector import PgVectorStore, open_store, statements
from stores.pgvector.lexical import lexical_query
from stores.testing.calls import EVERY_CALL
from stores.testing.records import SCOPE, oracle, record, records, vector, write
from stores.testing.searching import scattered

SCHEMA = "plans"
ONLY_THE_VECTOR_INDEX = "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off -c hnsw.max_scan_tuples=1"


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PgVectorStore]:
    async with open_store({"url": postgres_url, "pool_size": 1, "schema": SCHEMA, "timeout": 30.0}) as store:
        await store.drop_collection("c")
        await store.create_collection("c", (await oracle([]))._collections["oracle"].spec)
        yield store
        await store.drop_collection("c")


async def _round_trips(store: PgVectorStore, call: Callable[[], Awaitable[Any]]) -> int:
    with tempfile.TemporaryFile("r+") as trace:
        async with store._database._pool.connection() as connection:
            connection.pgconn.trace(trace.fileno())
        await call()
        async with store._database._pool.connection() as connection:
            connection.pgconn.untrace()
        trace.seek(0)
        return sum("\tSync" in line for line in trace)


def _explain(url: str, statement: statements.Statement) -> str:
    with psycopg.connect(url) as connection:
        register_vector(connection)
        connection.execute(f"analyze {SCHEMA}.r_c")
        connection.execute(f"analyze {SCHEMA}.t_c")
        connection.execute("set local enable_seqscan = off")
        plan = connection.execute(("explain (analyze, costs off) " + statement.sql).encode(), statement.parameters)
        return "\n".join(row[0] for row in plan.fetchall())


async def test_a_lexical_search_reads_the_postings_of_its_terms_alone(store: PgVectorStore, postgres_url: str) -> None:
    await write(store, "c", scattered(1000, dimension=8))
    rows = statements.rows_of(await store._tables("c"), SCOPE)

    plan = _explain(postgres_url, statements.lexical(rows, lexical_query({2000: 5.0, 2100: 4.0, 1: 0.1}), limit=5))

    assert "Bitmap Index Scan on t_c_terms_idx" in plan
    assert "Seq Scan" not in plan
    assert "Index Cond: (terms && '{-2147481648,-2147481548}'::integer[])" in plan


async def test_the_common_terms_are_read_only_where_they_could_still_matter(
    store: PgVectorStore, postgres_url: str
) -> None:
    await write(store, "c", [record(i, terms={1: 0.1, 2: 1.0 + i}) for i in range(50)])
    rows = statements.rows_of(await store._tables("c"), SCOPE)

    enough = _explain(postgres_url, statements.lexical(rows, lexical_query({2: 100.0, 1: 0.1}), limit=5))
    too_few = _explain(postgres_url, statements.lexical(rows, lexical_query({3: 100.0, 1: 0.1}), limit=5))

    skipped = re.compile(r" on (t_c|t_c_\w+)\b.*never executed")
    assert skipped.search(enough)
    assert not skipped.search(too_few)


@pytest.mark.parametrize("params", [SearchParams(), SearchParams(ef_search=300), SearchParams(exact=True)], ids=str)
async def test_every_search_is_one_round_trip_and_leaves_no_setting_behind(
    store: PgVectorStore, params: SearchParams
) -> None:
    await write(store, "c", records(30))

    async def round_trips(call: Callable[[], Awaitable[Any]]) -> int:
        await call()
        return await _round_trips(store, call)

    assert await round_trips(lambda: store.search("c", SCOPE, vector(1), limit=5, params=params)) == 1
    many = np.stack([vector(1, i) for i in range(20)])
    assert await round_trips(lambda: store.search_many("c", SCOPE, many, limit=5, params=params)) == 1
    assert await round_trips(lambda: store.lexical_search("c", SCOPE, {7: 1.0}, limit=5)) == 1
    terms = {7: 1.0, 1001: 5.0}
    assert await round_trips(lambda: store.hybrid_search("c", SCOPE, vector(1), terms, limit=5, params=params)) == 1
    assert (await store._database.query("show hnsw.ef_search", {}))[0][0] == "200"


async def test_a_filter_that_starves_the_vector_index_is_answered_exactly_and_counted(
    store: PgVectorStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.pgvector.selectivity.FEW_ROWS", 0)  # or no index would be asked
    rows = scattered(1500, dimension=8)
    await write(store, "c", rows)
    rare = Compare(operator="eq", key="year", value=7)
    expected = await (await oracle(rows)).search("oracle", SCOPE, vector(1), limit=2, filter=rare)
    separator = "&" if "?" in postgres_url else "?"
    options = ONLY_THE_VECTOR_INDEX.replace(" ", "%20").replace("=", "%3D")
    url = f"{postgres_url}{separator}options={options}"

    async with open_store({"url": url, "schema": SCHEMA, "timeout": 30.0}) as starved:
        few = SearchParams(ef_search=1)
        found = await starved.search("c", SCOPE, vector(1), limit=2, filter=rare, params=few)
        fused = await starved.hybrid_search("c", SCOPE, vector(1), {9_999: 1.0}, limit=2, filter=rare, params=few)

        assert [hit.id for hit in found] == [hit.id for hit in expected] == [hit.id for hit in fused]
        assert starved.exact_fallbacks == 2


async def test_a_filter_that_passes_few_rows_far_from_the_query_gives_the_nearest_of_them(
    store: PgVectorStore,
) -> None:
    near = [record(i, vector=vector(1, 0.0001 * i), metadata={"year": 1}) for i in range(1500)]
    far = [record(i, vector=vector(-1, 0.001 * i), metadata={"year": 2}) for i in range(1500, 2500)]
    await write(store, "c", [*near, *far])
    rare = Compare(operator="eq", key="year", value=2)
    expected = await (await oracle([*near, *far])).search("oracle", SCOPE, vector(1), limit=10, filter=rare)

    found = await store.search("c", SCOPE, vector(1), limit=10, filter=rare)

    assert [hit.id for hit in found] == [hit.id for hit in expected]
    assert store.exact_fallbacks == 0


async def test_how_many_rows_a_filter_passes_is_asked_once_for_its_values(store: PgVectorStore) -> None:
    await write(store, "c", [record(i, vector=vector(1, 0.001 * i), metadata={"year": 1}) for i in range(2100)])
    many = Compare(operator="eq", key="year", value=1)
    none, other = (Compare(operator="eq", key="year", value=year) for year in (2, 3))

    async def search(filter: Compare) -> Sequence[Hit]:
        return await store.search("c", SCOPE, vector(1), limit=3, filter=filter)

    assert await search(other) == []  # each statement is prepared when it is first sent
    assert await _round_trips(store, lambda: search(many)) == 2
    assert await _round_trips(store, lambda: search(many)) == 1
    assert await _round_trips(store, lambda: search(none)) == 2
    assert await _round_trips(store, lambda: search(none)) == 1
    assert await search(none) == []


async def test_a_tenant_that_the_vector_index_misses_is_answered_by_a_second_statement_and_counted(
    store: PgVectorStore, postgres_url: str
) -> None:
    crowd = [record(i, tenant="rival", vector=vector(1, 0.001 * i)) for i in range(1000)]
    mine = [record(i, vector=vector(-1, 0.1 * i)) for i in range(5)]
    await write(store, "c", [*crowd, *mine])
    url = make_conninfo(postgres_url, options=ONLY_THE_VECTOR_INDEX + " -c enable_indexonlyscan=off")
    few = SearchParams(ef_search=1)

    async with open_store({"url": url, "schema": SCHEMA, "timeout": 30.0}) as starved:
        found = await starved.search_many("c", SCOPE, np.stack([vector(1), vector(1, 0.5)]), limit=3, params=few)

        assert [len(hits) for hits in found] == [3, 3]
        assert {hit.id for hits in found for hit in hits} <= {row.id for row in mine}
        assert starved.exact_fallbacks == 2
        assert len(await starved.search("c", SCOPE, vector(1), limit=9, params=few)) == 5


@pytest.mark.parametrize("call", sorted(set(EVERY_CALL)))
async def test_a_table_dropped_behind_our_back_is_an_unknown_collection(
    store: PgVectorStore, postgres_url: str, call: str
) -> None:
    await write(store, "c", records(1))
    spec = await store.describe_collection("c")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"drop table {SCHEMA}.r_c cascade")

    with pytest.raises(CollectionNotFoundError):
        await EVERY_CALL[call](store, "c")

    await store.create_collection("c", spec)
    assert await store.count("c", SCOPE) == 0


async def test_connections_that_the_server_closed_fail_once_and_are_replaced(
    store: PgVectorStore, postgres_url: str
) -> None:
    await write(store, "c", records(3))
    ((pid,),) = await store._database.query("select pg_backend_pid()", {})
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("select pg_terminate_backend(%s, 5000)", (pid,))

    with pytest.raises(StoreError):
        await store.count("c", SCOPE)

    assert await store.count("c", SCOPE) == 3


async def test_a_server_that_is_not_there_is_a_store_error_and_no_hang() -> None:
    options = {"url": "postgresql://localhost:1/nowhere", "timeout": 0.3}

    async with open_store(options) as store:
        with pytest.raises(StoreError):
            await store.ping()
