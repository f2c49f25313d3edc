from __future__ import annotations

from typing import Any, cast

import pytest

from stores.milvus.calls import MAX_TOP, Calls
from stores.milvus.crowds import MOST, SECONDS, Crowd, Crowds
from stores.milvus.filters import Where
from stores.milvus.nearest import COMPARED_ROWS, least_depth

WHERE = Where(text="a == 1")


class Counting:
    """A server of 100 rows, 40 of them sealed, ten of them passing; it notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def visible(self, collection: str, where: Where) -> int:
        self.asked.append(where.text)
        return 10 if where.text.startswith("a") else 100

    def sealed(self, collection: str) -> int:
        self.asked.append("sealed")
        return 40


def counting() -> tuple[Counting, Calls]:
    server: Any = Counting()
    return server, cast("Calls", server)


def test_counts_are_asked_for_once_until_they_are_old_or_the_collection_is_written() -> None:
    now = [0.0]
    server, calls = counting()
    crowds = Crowds(clock=lambda: now[0])

    found = [crowds.of(calls, "c", WHERE) for _ in range(3)]
    asked = len(server.asked)
    crowds.forget("other")
    crowds.of(calls, "c", WHERE)
    unchanged = len(server.asked)
    crowds.forget("c")
    crowds.of(calls, "c", WHERE)
    now[0] += SECONDS
    crowds.of(calls, "c", WHERE)

    assert found == [Crowd(passing=10, total=100, unsealed=60)] * 3
    assert (asked, unchanged, len(server.asked)) == (3, 3, 9)


def test_a_count_that_a_write_overtakes_is_not_remembered() -> None:
    server, calls = counting()
    crowds = Crowds()

    def counted_during_a_write(collection: str, where: Where) -> int:
        crowds.forget(collection)
        return 10

    server.visible = counted_during_a_write  # type: ignore[method-assign]

    crowds.passing(calls, "c", WHERE)

    assert len(crowds) == 0


def test_the_counts_that_are_remembered_are_bounded() -> None:
    _, calls = counting()
    crowds = Crowds()

    for number in range(MOST + 50):
        crowds.passing(calls, "c", Where(text=f"a == {number}"))

    assert len(crowds) == MOST


@pytest.mark.parametrize("passing", [1, 500, 5_926, COMPARED_ROWS])
def test_more_than_half_of_the_rows_that_pass_are_asked_for_so_that_a_server_compares_them(passing: int) -> None:
    depth = least_depth(Crowd(passing=passing, total=10**6, unsealed=0), limit=10)

    assert passing / 2 < depth <= MAX_TOP


def test_the_graph_is_walked_where_all_rows_pass_or_too_many_to_compare() -> None:
    whole = Crowd(passing=9_900, total=10_000, unsealed=0)
    many = Crowd(passing=COMPARED_ROWS + 1, total=10**6, unsealed=0)

    assert [least_depth(crowd, limit=10) for crowd in (whole, many)] == [0, 0]
