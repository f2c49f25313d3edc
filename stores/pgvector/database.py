"""Pooled connections that are set up for vectors, and calls on them that end in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
from pgvector.psycopg import register_vector_async
from psycopg import AsyncConnection, OperationalError
from psycopg.pq import PipelineStatus
from psycopg.types import TypeInfo
from psycopg.types.json import Jsonb, set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from stores.pgvector.connection import DEFAULT_EF_SEARCH, Connection, Row
from stores.pgvector.errors import store_errors
from stores.pgvector.options import Options
from stores.pgvector.wall import ROLE, SERVICE, TENANT, raise_wall, vector_schema

_logger = logging.getLogger(__name__)

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
_FOR_TENANT = f"select set_config('statement_timeout', %s, true), set_config('{TENANT}', %s, true)"
_FOR_SERVICE = (
    "select set_config('statement_timeout', %s, true), set_config('role', 'none', true), "
    f"set_config('{SERVICE}', 'on', true)"
)


class Database:
    """A pool of connections; every call is bounded by ``timeout`` seconds and raises the port's errors.

    A call with a ``tenant`` sees that tenant's rows alone, whatever its statement says; one without is the
    service's own and sees all.
    """

    def __init__(self, pool: AsyncConnectionPool[Connection], *, timeout: float) -> None:
        self._pool = pool
        self._timeout = timeout

    async def query(
        self,
        statement: str,
        parameters: Mapping[str, Any],
        *,
        tenant: str | None = None,
        collection: str | None = None,
        ef_search: int = DEFAULT_EF_SEARCH,
    ) -> list[Row]:
        """All rows of one statement, in one network round trip, whatever ``ef_search`` it runs under."""
        (rows,) = await self.query_each(
            statement, [parameters], tenant=tenant, collection=collection, ef_search=ef_search
        )
        return rows

    async def query_each(
        self,
        statement: str,
        parameters: Sequence[Mapping[str, Any]],
        *,
        tenant: str | None = None,
        collection: str | None = None,
        ef_search: int = DEFAULT_EF_SEARCH,
    ) -> list[list[Row]]:
        """The rows of the statement with each of the ``parameters``, all in one network round trip."""
        with store_errors(collection):
            async with self._connection() as connection, asyncio.timeout(self._timeout):
                return await connection.rows(statement, parameters, tenant=tenant, ef_search=ef_search)

    @asynccontextmanager
    async def transaction(
        self, *, tenant: str | None = None, collection: str | None = None
    ) -> AsyncIterator[Connection]:
        """A connection within one transaction; all of it happens, or nothing."""
        patience = self._timeout * _WRITE_PATIENCE
        with store_errors(collection):
            async with self._connection() as connection, asyncio.timeout(patience), connection.transaction():
                if tenant is None:
                    await connection.execute(_FOR_SERVICE, (_milliseconds(patience),), prepare=True)
                else:
                    await connection.execute(_FOR_TENANT, (_milliseconds(patience), tenant), prepare=True)
                yield connection

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        try:
            connection = await self._pool.getconn(self._timeout)
            try:
                yield connection
            finally:
                if connection.pgconn.pipeline_status != PipelineStatus.OFF:
                    # Cancelled on its way into a pipeline, a connection would stay in it.
                    await connection.close()
                await self._pool.putconn(connection)
        except OperationalError as exc:
            if not isinstance(exc, PoolTimeout):
                # When the server went away every idle connection is as dead as this one.
                await self._pool.check()
            raise


@asynccontextmanager
async def open_database(options: Options) -> AsyncIterator[Database]:
    """The pool, open while the context lasts; the server may come up later than this."""
    warned = asyncio.Event()

    async def configure(connection: Connection) -> None:
        await _set_up(connection, options)
        if not connection.walled and not warned.is_set():
            warned.set()
            _logger.warning(
                "row-level security is off: the server lacks the role or the marks, and this login may not make them",
                extra={"action": "row_security_unavailable"},
            )

    pool = AsyncConnectionPool(
        options.url,
        connection_class=Connection,
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


async def _set_up(connection: Connection, options: Options) -> None:
    await _ensure_extension(connection)
    await register_vector_async(connection)
    set_json_loads(orjson.loads, connection)
    set_json_dumps(orjson.dumps, connection)
    connection.walled = await raise_wall(connection)
    settings = {
        **SESSION,
        "statement_timeout": _milliseconds(options.timeout),
        # The login's own path may begin with a schema of its own name, which the role does not have.
        "search_path": await vector_schema(connection),
    }
    await connection.execute(SET_SESSION, [Jsonb(settings)])
    if connection.walled:
        await connection.execute(f"set role {ROLE}".encode())


async def _ensure_extension(connection: AsyncConnection[Any]) -> None:
    if await TypeInfo.fetch(connection, "vector") is None:
        async with connection.transaction():
            await connection.execute("select pg_advisory_xact_lock(%s)", (_EXTENSION_LOCK,))
            await connection.execute("create extension if not exists vector")


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))
