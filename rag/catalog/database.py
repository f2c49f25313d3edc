"""The pool of connections to the catalog's Postgres, with a deadline on every use."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, TypeAlias

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from rag.catalog.errors import catalog_errors

SCHEMA = "anchorage"
WRITE_SECONDS = 60.0
"""Limit of a transaction that moves statistics; a collection's publications wait for each other."""

Cursor: TypeAlias = AsyncCursor[DictRow]


class Connection(AsyncConnection[DictRow]):
    """A connection with one cursor for all of its reads: what that learnt of a query's types stays with it."""

    @cached_property
    def reader(self) -> Cursor:
        """A cursor whose values come in binary."""
        return self.cursor(binary=True)


class Database:
    """Connections in autocommit, in the catalog's schema. Errors leave as the catalog's."""

    def __init__(self, pool: AsyncConnectionPool[Connection], *, timeout: float) -> None:
        self.pool = pool
        self._timeout = timeout

    @asynccontextmanager
    async def connection(self, *, limit: float | None = None) -> AsyncIterator[Connection]:
        """A connection for at most ``limit`` seconds, waiting for one included."""
        with catalog_errors():
            async with (
                asyncio.timeout(limit or self._timeout),
                self.pool.connection(timeout=self._timeout) as connection,
            ):
                yield connection

    @asynccontextmanager
    async def transaction(self, *, limit: float | None = None) -> AsyncIterator[Connection]:
        """A connection within one transaction: committed on the way out, rolled back by an error."""
        async with self.connection(limit=limit) as connection, connection.transaction():
            yield connection

    async def rows(self, query: str, arguments: dict[str, Any] | None = None) -> list[DictRow]:
        """All rows of one prepared query in one round trip, values in binary."""
        async with self.connection() as connection:
            await connection.reader.execute(query, arguments, prepare=True)
            return await connection.reader.fetchall()

    async def row(self, query: str, arguments: dict[str, Any] | None = None) -> DictRow | None:
        """The first row of one prepared query, or ``None``."""
        rows = await self.rows(query, arguments)
        return rows[0] if rows else None


@asynccontextmanager
async def open_database(url: str, *, pool_size: int, timeout: float) -> AsyncIterator[Database]:
    """Open the pool; connections are made as they are needed and replaced when the server restarts."""
    pool = AsyncConnectionPool(
        url,
        connection_class=Connection,
        kwargs={"row_factory": dict_row, "connect_timeout": 10},
        min_size=1,
        max_size=pool_size,
        timeout=timeout,
        reconnect_timeout=timeout,
        configure=_configure,
        check=_check,
        open=False,
        name="catalog",
    )
    async with pool:
        yield Database(pool, timeout=timeout)


async def _configure(connection: Connection) -> None:
    # Not a connection argument: procrastinate passes its own for the connection that it listens on.
    await connection.set_autocommit(True)
    await connection.execute(f"SET search_path TO {SCHEMA}, public")


async def _check(connection: Connection) -> None:
    """Ask the server only where the socket has something to say: it does when the server has gone."""
    if select.select([connection.fileno()], [], [], 0)[0]:
        await AsyncConnectionPool.check_connection(connection)
