"""Changing columns of a document's rows on an engine that can only write whole rows.

Rows that are read and written back come back to life when someone deletes them in between. A generation of a
document is deleted as a whole, so its rows are written in two halves, and after each the other half is looked for,
at the strongest consistency: where none of it is left, the generation was deleted meanwhile, and what was written is
deleted again. A generation of a single row is read again right before it is written; within one process, the store
lets no deletion come between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stores.milvus.calls import MAX_TOP, Calls
from stores.milvus.filters import Where
from stores.milvus.ranking import PAGE_ROWS
from stores.milvus.rows import Row


def rewrite(calls: Calls, collection: str, where: Where, changed: Row) -> None:
    """Give the rows the ``changed`` columns, generation by generation."""
    for keys in _generations(calls, collection, where).values():
        halves = [half for half in (keys[::2], keys[1::2]) if half]
        for half, other in zip(halves, reversed(halves), strict=True):
            _write(calls, collection, where, half, changed)
            if other is not half and not _any_left(calls, collection, where, other):
                _delete(calls, collection, where, half)
                break


def _generations(calls: Calls, collection: str, where: Where) -> Mapping[int, list[str]]:
    """The primary keys of each generation."""
    found: dict[int, list[str]] = {}
    for rows in calls.pages(collection, where, ["pk", "generation"], size=MAX_TOP):
        for row in rows:
            found.setdefault(row["generation"], []).append(row["pk"])
    return found


def _write(calls: Calls, collection: str, where: Where, keys: Sequence[str], changed: Row) -> None:
    for some in _pages(keys):
        rows = calls.page(collection, where.among(some), ["*"], limit=len(some))
        if rows:
            calls.upsert(collection, [{**row, **changed} for row in rows])


def _any_left(calls: Calls, collection: str, where: Where, keys: Sequence[str]) -> bool:
    return any(calls.count(collection, where.among(some)) for some in _pages(keys))


def _delete(calls: Calls, collection: str, where: Where, keys: Sequence[str]) -> None:
    for some in _pages(keys):
        calls.delete(collection, where.among(some))


def _pages(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + PAGE_ROWS] for start in range(0, len(keys), PAGE_ROWS))
