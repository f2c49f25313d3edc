"""Bulk writes: binary COPY into a staging table of the transaction, then one INSERT that replaces by id."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Json

from rag.core.filters import dump_metadata
from rag.core.types import Metadata, Scope
from stores.pgvector.connection import Row
from stores.pgvector.rows import field_values
from stores.pgvector.tables import RECORD_COLUMNS, TERM_COLUMNS, TERM_TYPES, Tables

_ROWS_A_TURN = 32
"""Rows packed before the event loop gets its turn; packing takes about 0.2 ms a row."""


async def write_records(connection: AsyncConnection[Any], tables: Tables, rows: Sequence[Row]) -> None:
    """Insert or replace records, ordered by id so that two writers never wait for each other in a circle."""
    columns = (*RECORD_COLUMNS, *tables.field_columns)
    await _write(connection, tables.records, columns, (*tables.record_types, *tables.field_types), rows)


async def write_terms(connection: AsyncConnection[Any], tables: Tables, rows: Sequence[Row], greatest: float) -> None:
    """Insert or replace postings, and raise the collection's greatest weight to ``greatest``."""
    await _write(connection, tables.terms, TERM_COLUMNS, TERM_TYPES, rows)
    await connection.execute(
        f"update {tables.registry} set greatest_weight = %(greatest)s "
        "where name = %(name)s and greatest_weight < %(greatest)s".encode(),
        {"greatest": greatest, "name": tables.collection},
    )


async def write_metadata(
    connection: AsyncConnection[Any], tables: Tables, scope: Scope, document: UUID, metadata: Metadata
) -> None:
    """Replace the metadata of a document's records."""
    columns = ("metadata", *tables.field_columns)
    types = ("json", *tables.field_types)
    assignments = ", ".join(f"{name} = %s::{kind}" for name, kind in zip(columns, types, strict=True))
    values = [Json(dump_metadata(metadata)), *field_values(tables, metadata)]
    await connection.execute(
        f"update {tables.records} set {assignments} where tenant = %s and document = %s".encode(),
        [*values, scope.tenant, document],
    )


async def _write(
    connection: AsyncConnection[Any], table: str, columns: Sequence[str], types: Sequence[str], rows: Sequence[Row]
) -> None:
    names = ", ".join(columns)
    replaced = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in ("id", "tenant"))
    await connection.execute(f"create temporary table staged (like {table}) on commit drop".encode())
    cursor = connection.cursor()
    async with cursor.copy(f"copy staged ({names}) from stdin (format binary)".encode()) as copy:
        copy.set_types(types)
        for number, row in enumerate(rows):
            await copy.write_row(row)
            if number % _ROWS_A_TURN == 0:
                await asyncio.sleep(0)
    await connection.execute(
        f"insert into {table} ({names}) select {names} from staged order by id "
        f"on conflict (tenant, id) do update set {replaced}".encode()
    )
    await connection.execute(b"drop table staged")
