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
    """Counts, up to ``FEW_ROWS``, what a filter passes, and remembers for ten seconds whether that is few.

    Writes may make what is remembered wrong. The answers stay right: where few became many, more rows are compared;
    where many became few, the index finds fewer of the nearest, or too few, which is noticed.
    """

    def __init__(self, ask: Callable[[statements.Rows, statements.Statement], Awaitable[list[Row]]]) -> None:
        self._ask = ask
        self._known: TTLCache[str, bool] = TTLCache(_REMEMBERED, ttl=_SECONDS)

    async def few(self, rows: statements.Rows) -> bool:
        """Whether at most ``FEW_ROWS`` of the scope pass the filter of ``rows``, which has one."""
        key = f"{rows.tables.records} {rows.condition} {sorted(rows.parameters.items())}"
        known = self._known.get(key)
        if known is None:
            ((passing,),) = await self._ask(rows, statements.count_up_to(rows, FEW_ROWS + 1))
            known = self._known[key] = bool(passing <= FEW_ROWS)
        return known
