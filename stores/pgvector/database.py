"""Pooled connections that are set up for vectors, and calls on them that end in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
from pgvector.psycopg import register_vector_async
from psycopg import AsyncConnection, OperationalError
from psycopg.types import TypeInfo
from psycopg.types.json import Jsonb, set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from stores.pgvector.errors import store_errors
from stores.pgvector.options import Options

DEFAULT_EF_SEARCH = 200
"""``hnsw.ef_search`` of a connection: what a search with default parameters runs under."""
_WRITE_PATIENCE = 12
"""A write may take this many times the timeout of a read: it may build the index of a thousand rows."""
_EXTENSION_LOCK = 0x616E6368
SESSION: Mapping[str, str] = {
    "hnsw.ef_search": str(DEFAULT_EF_SEARCH),
    "hnsw.iterative_scan": "strict_order",
    # A plan made for any value would use the vector index under a filter that leaves a handful of rows.
    "plan_cache_mode": "force_custom_plan",
    # Compiling an exact scan costs more than running it, and workers are started even for a part of the plan
    # that then never runs.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}
"""What decides how a connection of the store plans and runs its searches."""
SET_SESSION = "select set_config(name, value, false) from jsonb_each_text(%s) as settings (name, value)"
"""Applies a mapping such as :data:`SESSION`, as JSON, to a connection."""
_LOCAL_EF_SEARCH = "select set_config('hnsw.ef_search', %s, true)"
_LOCAL_TIMEOUT = "select set_config('statement_timeout', %s, true)"


class Database:
    """A pool of connections; every call is bounded by ``timeout`` seconds and raises the port's errors."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[Any]], *, timeout: float) -> None:
        self._pool = pool
        self._timeout = timeout

    async def query(
        self,
        statement: str,
        parameters: Mapping[str, Any],
        *,
        collection: str | None = None,
        ef_search: int = DEFAULT_EF_SEARCH,
    ) -> list[Sequence[Any]]:
        """All rows of one statement, in one network round trip, whatever ``ef_search`` it runs under."""
        with store_errors(collection):
            async with self._connection() as connection, asyncio.timeout(self._timeout):
                cursor = connection.cursor(binary=True)
                if ef_search == DEFAULT_EF_SEARCH:
                    await cursor.execute(statement.encode(), parameters, prepare=True)
                else:
                    # The statements of a pipeline are one transaction, so the setting ends with it.
                    async with connection.pipeline():
                        await connection.execute(_LOCAL_EF_SEARCH, (str(ef_search),), prepare=True)
                        await cursor.execute(statement.encode(), parameters, prepare=True)
                return await cursor.fetchall()

    @asynccontextmanager
    async def transaction(self, collection: str | None = None) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection within one transaction; all of it happens, or nothing."""
        patience = self._timeout * _WRITE_PATIENCE
        with store_errors(collection):
            async with self._connection() as connection, asyncio.timeout(patience), connection.transaction():
                await connection.execute(_LOCAL_TIMEOUT, (_milliseconds(patience),), prepare=True)
                yield connection

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        try:
            async with self._pool.connection(timeout=self._timeout) as connection:
                yield connection
        except OperationalError as exc:
            if not isinstance(exc, PoolTimeout):
                # When the server went away every idle connection is as dead as this one.
                await self._pool.check()
            raise


@asynccontextmanager
async def open_database(options: Options) -> AsyncIterator[Database]:
    """The pool, open while the context lasts; the server may come up later than this."""

    async def configure(connection: AsyncConnection[Any]) -> None:
        await _ensure_extension(connection)
        await register_vector_async(connection)
        set_json_loads(orjson.loads, connection)
        set_json_dumps(orjson.dumps, connection)
        settings = {**SESSION, "statement_timeout": _milliseconds(options.timeout)}
        await connection.execute(SET_SESSION, [Jsonb(settings)])

    pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
        options.url,
        min_size=min(2, options.pool_size),
        max_size=options.pool_size,
        timeout=options.timeout,
        kwargs={"autocommit": True, "connect_timeout": max(2, round(options.timeout))},
        configure=configure,
        open=False,
        name="pgvector",
    )
    async with pool:
        yield Database(pool, timeout=options.timeout)


async def _ensure_extension(connection: AsyncConnection[Any]) -> None:
    if await TypeInfo.fetch(connection, "vector") is None:
        async with connection.transaction():
            await connection.execute("select pg_advisory_xact_lock(%s)", (_EXTENSION_LOCK,))
            await connection.execute("create extension if not exists vector")


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))
