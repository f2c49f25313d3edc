"""Rows that are read and written back, while someone else deletes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from stores.milvus.calls import Calls
from stores.milvus.filters import EVERYTHING, Where
from stores.milvus.rewriting import rewrite

Row = dict[str, Any]


class Rows:
    """Rows by key, as the calls of the store see them; ``before_write`` runs between a read and its write."""

    def __init__(self, rows: Sequence[Row], before_write: Callable[[Rows, int], None]) -> None:
        self.rows = {row["pk"]: row for row in rows}
        self._before_write = before_write
        self._writes = 0

    def delete_generation(self, generation: int) -> None:
        self.rows = {key: row for key, row in self.rows.items() if row["generation"] != generation}

    def pages(self, collection: str, where: Where, columns: Sequence[str], *, size: int) -> Iterator[list[Row]]:
        yield self.page(collection, where, columns, limit=size)

    def page(self, collection: str, where: Where, columns: Sequence[str], *, limit: int) -> list[Row]:
        return [dict(self.rows[key]) for key in self._among(where)][:limit]

    def count(self, collection: str, where: Where) -> int:
        return len(self._among(where))

    def upsert(self, collection: str, rows: Sequence[Row]) -> None:
        self._writes += 1
        self._before_write(self, self._writes)
        self.rows |= {row["pk"]: row for row in rows}

    def delete(self, collection: str, where: Where) -> None:
        for key in self._among(where):
            del self.rows[key]

    def _among(self, where: Where) -> list[str]:
        named = re.search(r" pk in \[(.*)\]", where.text)
        keys = sorted(self.rows)
        return keys if named is None else [key for key in keys if f'"{key}"' in named[1]]


def rewritten(rows: Sequence[Row], before_write: Callable[[Rows, int], None] = lambda *_: None) -> list[Row]:
    server: Any = Rows(rows, before_write)
    rewrite(cast("Calls", server), "c", EVERYTHING, {"metadata": "new"})
    return [server.rows[key] for key in sorted(server.rows)]


def rows_of(generation: int, count: int) -> list[Row]:
    return [
        {"pk": f"{generation}{number:03}", "generation": generation, "metadata": "old", "body": f"text {number}"}
        for number in range(count)
    ]


def test_every_row_gets_the_new_metadata_and_keeps_the_rest() -> None:
    rows = [*rows_of(1, 1), *rows_of(2, 601)]

    found = rewritten(rows)

    assert found == [{**row, "metadata": "new"} for row in rows]


def test_a_generation_that_is_deleted_before_any_of_the_writes_stays_deleted() -> None:
    rows = [*rows_of(1, 601), *rows_of(2, 3)]

    left = []
    for moment in range(1, 5):
        found = rewritten(rows, lambda server, write, at=moment: server.delete_generation(1) if write == at else None)  # type: ignore[misc]
        left.append({row["generation"] for row in found})
        assert [row for row in found if row["generation"] == 2] == [{**row, "metadata": "new"} for row in rows_of(2, 3)]

    assert left == [{2}] * 4
