"""Row-level security as a second wall: a statement that forgets its tenant sees nothing of another's.

Searches and writes run under a role that owns nothing and bypasses nothing, and a policy lets through the rows of
the tenant that the connection is set to. Calls that span tenants run as the login (see
``docs/decisions/0005-row-level-security.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection
from psycopg.errors import DuplicateObject, InsufficientPrivilege, UniqueViolation

from stores.pgvector.tables import Tables, registry

ROLE = "anchorage_tenant"
TENANT = "anchorage.tenant"
"""The setting that names the tenant whose rows a connection sees."""
SERVICE = "anchorage.service"
"""The setting under which the tables' owner sees every tenant's rows."""
_LOCK = 0x616E6369
_ROLE_SETTINGS_VERSION = 160_000
_LEAKPROOF = ("arrayoverlap(anyarray,anyarray)", "arraycontains(anyarray,anyarray)", '"left"(text,integer)')
"""Functions of our indexed conditions. PostgreSQL reads an index under a policy only for functions that are marked
to give nothing away; these three give nothing away, but come unmarked."""


async def raise_wall(connection: AsyncConnection[Any]) -> bool:
    """Make the role and the marks unless they are there; whether the wall can stand on this server."""
    if await _can_stand(connection):
        return True
    with suppress(InsufficientPrivilege, DuplicateObject, UniqueViolation):
        async with connection.transaction():
            await _prepare(connection)
    return await _can_stand(connection)


async def vector_schema(connection: AsyncConnection[Any]) -> str:
    """The schema that holds pgvector's types and operators, quoted."""
    found = await connection.execute(
        "select extnamespace::regnamespace::text from pg_extension where extname = 'vector'"
    )
    ((schema,),) = await found.fetchall()
    return str(schema)


def wall_statements(tables: Tables) -> Iterator[str]:
    """Put a collection behind the wall; repeating them changes nothing."""
    yield f'grant usage on schema "{tables.schema}" to {ROLE}'
    yield f"grant select, update (greatest_weight) on {registry(tables.schema)} to {ROLE}"
    for table in (tables.records, tables.terms):
        yield f"drop policy if exists tenant on {table}"
        yield f"drop policy if exists service on {table}"
        yield f"create policy tenant on {table} using (tenant = current_setting('{TENANT}', true))"
        yield f"create policy service on {table} to current_user using (current_setting('{SERVICE}', true) = 'on')"
        yield f"alter table {table} enable row level security"
        yield f"alter table {table} force row level security"
        yield f"grant select, insert, update, delete on {table} to {ROLE}"


async def _can_stand(connection: AsyncConnection[Any]) -> bool:
    privilege = "set" if connection.info.server_version >= _ROLE_SETTINGS_VERSION else "member"
    found = await connection.execute(
        "select coalesce((select pg_has_role(r.oid, %s) and has_schema_privilege(r.oid, extnamespace, 'usage') "
        "and has_database_privilege(r.oid, current_database(), 'temporary') "
        "from pg_roles r, pg_extension where rolname = %s and not rolsuper and not rolbypassrls "
        "and extname = 'vector'), false) "
        "and (select bool_and(proleakproof) from pg_proc where oid = any(%s::regprocedure[]))",
        (privilege, ROLE, list(_LEAKPROOF)),
    )
    ((stands,),) = await found.fetchall()
    return bool(stands)


async def _prepare(connection: AsyncConnection[Any]) -> None:
    await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
    found = await connection.execute("select from pg_roles where rolname = %s", (ROLE,))
    if not found.rowcount:
        await connection.execute(f"create role {ROLE} nologin".encode())
    await connection.execute(f"grant {ROLE} to current_user".encode())
    await connection.execute(f"grant usage on schema {await vector_schema(connection)} to {ROLE}".encode())
    # Bulk writes go through a temporary table.
    lacking = await connection.execute(
        "select quote_ident(current_database()) where not has_database_privilege(%s, current_database(), 'temporary')",
        (ROLE,),
    )
    for (database,) in await lacking.fetchall():
        await connection.execute(f"grant temporary on database {database} to {ROLE}".encode())
    unmarked = await connection.execute(
        "select oid::regprocedure::text from pg_proc where oid = any(%s::regprocedure[]) and not proleakproof",
        (list(_LEAKPROOF),),
    )
    for (function,) in await unmarked.fetchall():
        await connection.execute(f"alter function {function} leakproof".encode())
