"""The definition of the tables: one of all collections' specs, and two a collection.

``r_<collection>`` holds the records; its vectors are kept in line so that a search reads no second page.
``t_<collection>`` holds what lexical search reads, a narrow row a record: the term ids under a GIN index, the
weights as ``sparsevec``, whose dot product pgvector computes (see ``docs/decisions/0002-postings-layout.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from psycopg import AsyncConnection

from rag.core.errors import CollectionExistsError
from rag.core.records import CollectionSpec
from rag.core.types import FieldType
from stores.pgvector.connection import Connection
from stores.pgvector.filters import Column, index_key
from stores.pgvector.tables import PARTS, Tables, column_types, registry
from stores.pgvector.wall import wall_statements

MAX_DIMENSION = 2000
MAX_HALF_DIMENSION = 4000
"""What pgvector's HNSW takes of single and of half precision."""
_INLINE_BYTES = 6144
"""A longer vector leaves a page too little room for the rest of its row."""


async def create(connection: Connection, tables: Tables) -> None:
    """Create a collection within a transaction; raises ``CollectionExistsError`` where it has another spec."""
    await _lock(connection, tables.schema)
    for statement in _registry_statements(tables.schema):
        await connection.execute(statement.encode())
    if (existing := await _existing(connection, tables.schema, tables.collection)) is None:
        await _forget(connection, tables.schema, tables.collection)
        for statement in table_statements(tables):
            await connection.execute(statement.encode())
        await connection.execute(
            f"insert into {tables.registry} (name, spec) values (%s, %s::json)".encode(),
            (tables.collection, orjson.dumps(tables.spec.to_json()).decode()),
        )
    elif existing != tables.spec:
        raise CollectionExistsError(f"the collection {tables.collection} exists with another spec")
    if connection.walled:
        for statement in wall_statements(tables):
            await connection.execute(statement.encode())


async def protect(connection: Connection, tables: Tables) -> None:
    """Put a collection that was made without the wall behind it, within a transaction, where it can stand."""
    if connection.walled:
        await _lock(connection, tables.schema)
        for statement in wall_statements(tables):
            await connection.execute(statement.encode())


async def drop(connection: AsyncConnection[Any], schema: str, collection: str) -> None:
    """Drop a collection within a transaction; a missing one is a no-op."""
    await _lock(connection, schema)
    found = await connection.execute("select to_regclass(%s)", (registry(schema),))
    row = await found.fetchone()
    if row and row[0] is not None:
        await _forget(connection, schema, collection)


def stored_spec(schema: str, collection: str) -> tuple[str, dict[str, Any]]:
    """Statement and parameters for a collection whose tables are there: its spec, and whether it is walled."""
    sql = (
        f"select spec, (select bool_and(relrowsecurity and relforcerowsecurity) from pg_class "
        "where oid in (to_regclass(%(records)s), to_regclass(%(terms)s))) "
        f"from {registry(schema)} where name = %(name)s and to_regclass(%(records)s) is not null"
    )
    return sql, {
        "name": collection,
        "records": f'"{schema}"."r_{collection}"',
        "terms": f'"{schema}"."t_{collection}"',
    }


async def _existing(connection: AsyncConnection[Any], schema: str, collection: str) -> CollectionSpec | None:
    statement, parameters = stored_spec(schema, collection)
    row = await (await connection.execute(statement.encode(), parameters)).fetchone()
    return CollectionSpec.from_json(row[0]) if row else None


async def _forget(connection: AsyncConnection[Any], schema: str, collection: str) -> None:
    for table in (f"t_{collection}", f"r_{collection}"):
        await connection.execute(f'drop table if exists "{schema}"."{table}"'.encode())
    await connection.execute(f"delete from {registry(schema)} where name = %s".encode(), (collection,))


async def _lock(connection: AsyncConnection[Any], schema: str) -> None:
    """One definition at a time in a schema: PostgreSQL's ``if not exists`` fails when two meet."""
    await connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"anchorage {schema}",))


def _registry_statements(schema: str) -> list[str]:
    return [
        f'create schema if not exists "{schema}"',
        (
            f"create table if not exists {registry(schema)} (name text primary key, spec json not null, "
            "greatest_weight real not null default 0, created_at timestamptz not null default now())"
        ),
    ]


def table_statements(tables: Tables) -> Iterator[str]:
    """Create a collection's tables and indexes."""
    yield from _records(tables)
    yield from _terms(tables)


def _records(tables: Tables) -> Iterator[str]:
    spec = tables.spec
    fields = [f"{name} {_collated(kind)}" for c in tables.columns.values() for name, kind in column_types(c)]
    yield (
        f"create table {tables.records} ("
        'id uuid not null, tenant text collate "C" not null, document uuid not null, generation int8 not null, '
        "place int4 not null, acl text[] not null, body text not null, begins int8 not null, ends int8 not null, "
        "page int4, headings text[] not null, quality text not null, metadata json not null, "
        f"embedding {tables.vector_type}({spec.dimension}) not null, "
        + "".join(f"{field}, " for field in fields)
        + "primary key (tenant, id))"
    )
    if spec.dimension * tables.vector_bytes <= _INLINE_BYTES:
        yield f"alter table {tables.records} alter embedding set storage plain"
    yield f"create index on {tables.records} (tenant, document, generation)"
    for column in tables.columns.values():
        yield f"create index on {tables.records} {_index(column)}"
    yield (
        f"create index on {tables.records} using hnsw (embedding {tables.operator_class}) "
        f"with (m = {spec.index.m}, ef_construction = {spec.index.ef_construction})"
    )


def _terms(tables: Tables) -> Iterator[str]:
    weights = ", ".join(f"{part} sparsevec" for part in PARTS)
    yield (
        f'create table {tables.terms} (id uuid not null, tenant text collate "C" not null, acl text[] not null, '
        f"terms int4[] not null, {weights}, primary key (tenant, id), "
        f"foreign key (tenant, id) references {tables.records} on delete cascade) with (toast_tuple_target = 8160)"
    )
    # In line and uncompressed while the row fits a page: a candidate's score then costs no further read.
    for name in ("terms", *PARTS):
        yield f"alter table {tables.terms} alter {name} set storage main"
    yield f"create index on {tables.terms} using gin (terms) with (fastupdate = off)"


def _index(column: Column) -> str:
    if column.type is FieldType.STRINGS:
        return f"using gin ({column.keys})"
    return f"({index_key(column).as_string(None) if column.type is FieldType.STRING else column.name})"


def _collated(kind: str) -> str:
    """Strings compare by code point, as Python's do."""
    return f'{kind} collate "C"' if kind == "text" else kind
