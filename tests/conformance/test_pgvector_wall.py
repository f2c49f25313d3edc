"""Row-level security as a second wall: it holds where a statement of ours forgets its tenant, and costs no plan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from rag.core.errors import StoreError
from rag.core.filters import Compare, Contains
from rag.core.ports import Selector
from rag.core.types import Scope
from stores.pgvector import PgVectorStore, open_store, statements
from stores.pgvector.lexical import lexical_query
from stores.pgvector.wall import ROLE, TENANT
from stores.testing.records import SCOPE, record, records, spec_of, vector, write
from stores.testing.searching import scattered

SCHEMA = "wall"
RIVAL = Scope(tenant="rival")
_MARKED = ('"left"(text, integer)', "arrayoverlap(anyarray, anyarray)", "arraycontains(anyarray, anyarray)")
ALL_ROWS = "select tenant from wall.r_c union all select tenant from wall.t_c"


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PgVectorStore]:
    async with open_store({"url": postgres_url, "pool_size": 1, "schema": SCHEMA, "timeout": 30.0}) as store:
        await store.drop_collection("c")
        await store.create_collection("c", spec_of())
        yield store
        await store.drop_collection("c")


def _as_owner(url: str, *commands: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        for command in commands:
            last = connection.execute(command.encode())
        return last.fetchall() if last.description else []


async def _seen(store: PgVectorStore, scope: Scope) -> set[str]:
    """The tenants that a statement without any condition sees on behalf of ``scope``."""
    return {row[0] for row in await store._database.query(ALL_ROWS, {}, tenant=scope.tenant)}


async def test_a_statement_without_our_condition_sees_its_own_tenant_alone(store: PgVectorStore) -> None:
    await write(store, "c", [*records(3), *records(2, tenant=RIVAL.tenant)])

    assert await _seen(store, SCOPE) == {SCOPE.tenant}
    assert await _seen(store, RIVAL) == {RIVAL.tenant}
    assert await _seen(store, Scope(tenant="nobody")) == set()


async def test_without_the_wall_the_same_statement_sees_every_tenant(store: PgVectorStore, postgres_url: str) -> None:
    await write(store, "c", [*records(3), *records(2, tenant=RIVAL.tenant)])
    _as_owner(postgres_url, *(f"alter table {SCHEMA}.{table} disable row level security" for table in ("r_c", "t_c")))

    assert await _seen(store, SCOPE) == {SCOPE.tenant, RIVAL.tenant}


@pytest.mark.parametrize(
    "statement",
    [
        "update wall.r_c set body = 'changed'",
        "delete from wall.r_c",
        "update wall.t_c set acl = '{staff}'",
        "delete from wall.t_c",
    ],
)
async def test_a_write_without_our_condition_leaves_other_tenants_alone(store: PgVectorStore, statement: str) -> None:
    await write(store, "c", [*records(3), *records(2, tenant=RIVAL.tenant)])
    before = [await store.get("c", RIVAL, [row.id]) for row in records(2, tenant=RIVAL.tenant)]

    async with store._database.transaction(tenant=SCOPE.tenant) as connection:
        changed = await connection.execute(statement.encode())

    assert changed.rowcount == 3
    after = [await store.get("c", RIVAL, [row.id]) for row in records(2, tenant=RIVAL.tenant)]
    assert [row.text for (row,) in after] == [row.text for (row,) in before]


async def test_a_row_of_another_tenant_is_refused_by_the_table_itself(store: PgVectorStore) -> None:
    await write(store, "c", records(1))

    with pytest.raises(StoreError, match="InsufficientPrivilege"):
        async with store._database.transaction(tenant=SCOPE.tenant) as connection:
            await connection.execute(b"update wall.r_c set tenant = 'rival'")


async def test_searches_run_under_a_role_that_owns_nothing_and_bypasses_nothing(store: PgVectorStore) -> None:
    ((user, is_super, bypasses),) = await store._database.query(
        "select current_user::text, rolsuper, rolbypassrls from pg_roles where rolname = current_user",
        {},
        tenant=SCOPE.tenant,
    )

    assert (user, is_super, bypasses) == (ROLE, False, False)


async def test_a_connection_is_set_to_a_tenant_only_when_it_changes_and_again_after_an_error(
    store: PgVectorStore,
) -> None:
    async def tenant() -> str | None:
        async with store._database._pool.connection() as connection:
            return connection.tenant

    await store.count("c", SCOPE)
    assert await tenant() == SCOPE.tenant

    with pytest.raises(StoreError):
        await store._database.query("select nothing_such()", {}, tenant=RIVAL.tenant)

    assert await tenant() is None
    assert await _seen(store, SCOPE) <= {SCOPE.tenant}
    ((name,),) = await store._database.query(f"select current_setting('{TENANT}')", {}, tenant=SCOPE.tenant)
    assert name == SCOPE.tenant


async def test_a_connection_that_was_left_in_a_pipeline_is_replaced(store: PgVectorStore) -> None:
    async with store._database._connection() as connection:
        connection.pgconn.enter_pipeline_mode()

    await write(store, "c", records(2))

    assert await store.count("c", SCOPE) == 2


@pytest.mark.parametrize("cancelled", [SCOPE, RIVAL], ids=["set already", "set with the statement"])
async def test_after_a_cancelled_call_each_caller_is_its_own_tenant(
    store: PgVectorStore, postgres_url: str, cancelled: Scope
) -> None:
    await store.count("c", SCOPE)
    sleep = f"select pg_sleep(60)::text as mark_{uuid4().hex}"
    active = f"select pid from pg_stat_activity where query = '{sleep}' and state = 'active'"  # noqa: S608
    call = asyncio.create_task(store._database.query(sleep, {}, tenant=cancelled.tenant))
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(_as_owner, postgres_url, active):  # noqa: ASYNC110  it asks the server
            await asyncio.sleep(0.01)

    call.cancel()
    await asyncio.wait({call})

    assert call.cancelled()
    for scope in (SCOPE, RIVAL, SCOPE):
        ((name,),) = await store._database.query(f"select current_setting('{TENANT}')", {}, tenant=scope.tenant)
        assert name == scope.tenant


async def test_a_collection_made_before_the_wall_is_put_behind_it_on_first_use(
    store: PgVectorStore, postgres_url: str
) -> None:
    await write(store, "c", [*records(3), *records(2, tenant=RIVAL.tenant)])
    for table in (f"{SCHEMA}.r_c", f"{SCHEMA}.t_c"):
        _as_owner(
            postgres_url,
            f"drop policy tenant on {table}",
            f"drop policy service on {table}",
            f"alter table {table} no force row level security",
            f"alter table {table} disable row level security",
            f"revoke all on {table} from {ROLE}",
        )

    async with open_store({"url": postgres_url, "schema": SCHEMA, "timeout": 30.0}) as later:
        assert await later.count("c", SCOPE) == 3
        assert await _seen(later, SCOPE) == {SCOPE.tenant}
        assert (await later.stats("c")).rows == 5


def _plan(url: str, statement: statements.Statement) -> str:
    with psycopg.connect(url) as connection:
        connection.execute(f"analyze {SCHEMA}.r_c")
        connection.execute(f"analyze {SCHEMA}.t_c")
        register_vector(connection)
        connection.execute("set local enable_seqscan = off")
        connection.execute(f"set local role {ROLE}".encode())
        connection.execute(f"select set_config('{TENANT}', %s, true)".encode(), (SCOPE.tenant,))
        plan = connection.execute(("explain (costs off) " + statement.sql).encode(), statement.parameters)
        return "\n".join(row[0] for row in plan.fetchall())


async def test_the_wall_is_asked_once_a_search_and_leaves_it_the_vector_index(
    store: PgVectorStore, postgres_url: str
) -> None:
    await write(store, "c", scattered(1000, dimension=8))
    rows = statements.rows_of(await store._tables("c"), SCOPE)

    plan = _plan(postgres_url, statements.nearest(rows, vector(1), limit=5))

    assert "Index Scan using r_c_embedding_idx" in plan
    assert f"One-Time Filter: ((current_setting('{TENANT}'" in plan
    assert plan.count("current_setting") == 1


@pytest.mark.parametrize(
    ("selector", "index"),
    [
        (Compare(operator="eq", key="year", value=7), "year"),
        (Compare(operator="eq", key="language", value="en"), "language"),
        (Contains(key="tags", value="common"), "tags"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_wall_leaves_a_filter_its_index(
    store: PgVectorStore, postgres_url: str, selector: Selector, index: str
) -> None:
    rows_written = [record(i, metadata={"year": i, "language": f"l{i}", "tags": [f"t{i}"]}) for i in range(1000)]
    await write(store, "c", rows_written)
    tables = await store._tables("c")
    column = tables.columns[index]

    plan = _plan(postgres_url, statements.count(statements.rows_of(tables, SCOPE, selector)))

    assert "Index Cond" in plan
    assert f"({column.keys} @>" in plan or f"({column.name} =" in plan or f'"left"({column.name}' in plan
    assert "Seq Scan" not in plan


async def test_the_wall_leaves_a_lexical_search_its_postings(store: PgVectorStore, postgres_url: str) -> None:
    await write(store, "c", scattered(1000, dimension=8))
    rows = statements.rows_of(await store._tables("c"), SCOPE)

    plan = _plan(postgres_url, statements.lexical(rows, lexical_query({2000: 5.0, 2100: 4.0}), limit=5))

    assert "Bitmap Index Scan on t_c_terms_idx" in plan


async def test_where_temporary_tables_are_revoked_from_everyone_the_role_is_given_them(postgres_url: str) -> None:
    name = f"Strict-{uuid4().hex[:8]}"
    _as_owner(postgres_url, f'create database "{name}"', f'revoke temporary on database "{name}" from public')

    async with open_store({"url": make_conninfo(postgres_url, dbname=name), "timeout": 30.0}) as store:
        await store.create_collection("c", spec_of())
        await write(store, "c", records(3))

        assert await store.count("c", SCOPE) == 3


@pytest.fixture
def plain_login(postgres_url: str) -> str:
    """A login that owns a database of its own, and is no superuser."""
    name = f"plain_{uuid4().hex[:8]}"
    _as_owner(postgres_url, f"create role {name} login createrole", f"create database {name} owner {name}")
    return make_conninfo(postgres_url, dbname=name, user=name)


async def test_a_server_that_an_administrator_prepared_is_walled_for_a_plain_login(
    postgres_url: str, plain_login: str
) -> None:
    own = psycopg.conninfo.conninfo_to_dict(plain_login)["user"]
    _as_owner(
        make_conninfo(postgres_url, dbname=str(own)),
        "create extension vector",
        *(f"alter function pg_catalog.{each} leakproof" for each in _MARKED),
        f"grant {ROLE} to {own}",
    )

    async with open_store({"url": plain_login, "schema": SCHEMA, "timeout": 30.0}) as store:
        await store.create_collection("c", spec_of())
        await write(store, "c", [*records(3), *records(2, tenant=RIVAL.tenant)])

        assert await _seen(store, SCOPE) == {SCOPE.tenant}
        assert (await store.stats("c")).rows == 5
        assert len(await store.hybrid_search("c", SCOPE, vector(1), {7: 1.0}, limit=5)) == 3
    assert _as_owner(plain_login, ALL_ROWS) == []


async def test_a_server_that_nobody_prepared_still_serves_and_says_that_the_wall_is_missing(
    postgres_url: str, plain_login: str, caplog: pytest.LogCaptureFixture
) -> None:
    own = psycopg.conninfo.conninfo_to_dict(plain_login)["user"]
    _as_owner(make_conninfo(postgres_url, dbname=str(own)), "create extension vector")

    async with open_store({"url": plain_login, "schema": SCHEMA, "timeout": 30.0}) as store:
        await store.create_collection("c", spec_of())
        await write(store, "c", [*records(3), *records(2, tenant=RIVAL.tenant)])

        assert len(await store.search("c", SCOPE, vector(1), limit=5)) == 3
        assert await _seen(store, SCOPE) == {SCOPE.tenant, RIVAL.tenant}
    assert [each.action for each in caplog.records if hasattr(each, "action")] == ["row_security_unavailable"]


async def test_a_role_that_may_not_make_temporary_tables_is_no_wall_and_writes_go_on(
    postgres_url: str, plain_login: str
) -> None:
    own = psycopg.conninfo.conninfo_to_dict(plain_login)["user"]
    _as_owner(
        make_conninfo(postgres_url, dbname=str(own)),
        "create extension vector",
        f"grant {ROLE} to {own}",
        f"revoke temporary on database {own} from public",
        *(f"alter function pg_catalog.{each} leakproof" for each in _MARKED),
    )
    _as_owner(plain_login, f"revoke temporary on database {own} from {ROLE}")

    async with open_store({"url": plain_login, "schema": SCHEMA, "timeout": 30.0}) as store:
        await store.create_collection("c", spec_of())
        await write(store, "c", records(3))

        assert await store.count("c", SCOPE) == 3
