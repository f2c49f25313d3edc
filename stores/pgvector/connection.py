"""A connection that knows for which tenant it is set, and sends what a search needs in one round trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from psycopg import AsyncConnection, AsyncCursor

from stores.pgvector.wall import SERVICE, TENANT

Row: TypeAlias = Sequence[Any]

DEFAULT_EF_SEARCH = 200
"""``hnsw.ef_search`` of a connection: what a search with default parameters runs under."""
_LOCAL_EF_SEARCH = "select set_config('hnsw.ef_search', %s, true)"
_TENANT = f"select set_config('{TENANT}', %s, false)"
_SERVICE = f"select set_config('role', 'none', true), set_config('{SERVICE}', 'on', true)"


class Connection(AsyncConnection[Any]):
    """``walled``: it runs under the role that row-level security binds.

    ``tenant`` is whose rows it sees; ``None`` when that is not known, as after an error.
    """

    walled = False
    tenant: str | None = None

    async def rows(
        self, statement: str, parameters: Sequence[Mapping[str, Any]], *, tenant: str | None, ef_search: int
    ) -> list[list[Row]]:
        """The rows of the statement with each of the ``parameters``, on behalf of ``tenant``, or of the service."""
        settings = self._settings(tenant, ef_search)
        known, self.tenant = self.tenant, None
        if settings or len(parameters) > 1:
            found = await self._pipelined(statement, parameters, settings)
        else:
            found = [await self._single(statement, each) for each in parameters]
        self.tenant = known if tenant is None else tenant
        return found

    def _settings(self, tenant: str | None, ef_search: int) -> list[tuple[str, tuple[str, ...]]]:
        settings: list[tuple[str, tuple[str, ...]]] = []
        if tenant is None:
            settings.append((_SERVICE, ()))
        elif tenant != self.tenant:
            settings.append((_TENANT, (tenant,)))
        if ef_search != DEFAULT_EF_SEARCH:
            settings.append((_LOCAL_EF_SEARCH, (str(ef_search),)))
        return settings

    async def _single(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        cursor = await self._reader.execute(_encoded(statement), parameters, prepare=True)
        return await cursor.fetchall()

    async def _pipelined(
        self,
        statement: str,
        parameters: Sequence[Mapping[str, Any]],
        settings: Sequence[tuple[str, tuple[str, ...]]],
    ) -> list[list[Row]]:
        # The statements of a pipeline are one transaction, so that a local setting ends with it.
        async with self.pipeline():
            for setting, values in settings:
                await self.execute(setting.encode(), values, prepare=True)
            readers = [self._reader, *(self.cursor(binary=True) for _ in parameters[1:])]
            cursors = [
                await reader.execute(_encoded(statement), each, prepare=True)
                for reader, each in zip(readers, parameters, strict=True)
            ]
        return [await cursor.fetchall() for cursor in cursors]

    @cached_property
    def _reader(self) -> AsyncCursor[Any]:
        return self.cursor(binary=True)


@lru_cache(maxsize=256)
def _encoded(statement: str) -> bytes:
    """The same object for the same text: a cursor keeps what it knows of types while its query is identical."""
    return statement.encode()
