"""Whether a filter passes few rows: then these are compared, whatever the vector index would find among them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cachetools import TTLCache

from stores.pgvector import statements
from stores.pgvector.connection import Row

FEW_ROWS = 2000
"""Where a filter passes no more, they are compared: on 100,000 clustered rows, under a filter that passes 1,000 of
them, the index finds 0.94 of the nearest, and 0.28 where these lie far from the query."""
_REMEMBERED = 1024
_SECONDS = 10.0


class Selectivity:
    """Counts, up to ``FEW_ROWS``, what a filter passes.

    That it passes many is remembered for ten seconds. Deletes may make that wrong; the index then finds fewer of the
    nearest, or too few, which is noticed.
    """

    def __init__(self, ask: Callable[[statements.Rows, statements.Statement], Awaitable[list[Row]]]) -> None:
        self._ask = ask
        self._many: TTLCache[str, None] = TTLCache(_REMEMBERED, ttl=_SECONDS)

    async def few(self, rows: statements.Rows) -> bool:
        """Whether at most ``FEW_ROWS`` of the scope pass the filter of ``rows``, which has one."""
        key = f"{rows.tables.records} {rows.condition} {sorted(rows.parameters.items())}"
        if key in self._many:
            return False
        ((passing,),) = await self._ask(rows, statements.count_up_to(rows, FEW_ROWS + 1))
        if passing > FEW_ROWS:
            self._many[key] = None
        return bool(passing <= FEW_ROWS)
