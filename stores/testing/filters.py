"""What a store promises of filters: exactly the rows that ``rag.core.filters.matches`` lets pass."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from rag.core.filters import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_VALUES,
    And,
    Compare,
    Contains,
    Exists,
    Filter,
    In,
    Not,
    Operator,
    Or,
    matches,
)
from rag.core.ports import VectorStore
from rag.core.records import ByDocument
from rag.core.types import Metadata, Scalar
from stores.testing.calls import SEARCHES, offered
from stores.testing.engine import Conformance, Make, run_examples
from stores.testing.records import (
    FIELDS,
    MOMENT,
    SCOPE,
    assert_same_ranking,
    document_of,
    everything,
    oracle,
    record,
    same,
    write,
)

Strategy = st.SearchStrategy

TEXTS = ["", "a", "A", "ä", "b'", "中文", "\\", "%", "🦜", "x" * 300, "x" * 300 + "y"]
WHOLE = [-(2**63), -1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1]
REAL = [-1.5, -0.0, 0.0, 1.0, 1.5, 2.0**53, 1e300, -1e-300]
MOMENTS = [
    MOMENT,
    MOMENT + timedelta(microseconds=1),
    MOMENT.astimezone(timezone(timedelta(hours=8))),
    datetime(1, 1, 2, tzinfo=UTC),
    datetime(9999, 12, 30, tzinfo=UTC),
]


def _texts(text: str) -> Metadata:
    return {"language": text, "tags": [text, "common"]}


ROWS: list[Metadata] = [
    {},
    dict.fromkeys(FIELDS),
    *(_texts(text) for text in TEXTS),
    *({"year": number} for number in WHOLE),
    *({"price": number, "public": number > 0} for number in REAL),
    *({"created": moment} for moment in MOMENTS),
    {"tags": []},
    {"language": "a", "year": 1, "price": 1.0, "public": True, "created": MOMENT, "tags": ["a"]},
]
ANY_VALUE: list[Any] = [*TEXTS, *WHOLE, 2**70, -(2**70), *REAL, 0.5, float("inf"), float("-inf"), *MOMENTS, True, False]
CORNER_CASES: list[Filter] = [
    And(filters=()),
    Or(filters=()),
    Not(filter=And(filters=())),
    Not(filter=Or(filters=())),
    In(key="language", values=()),
    In(key="language", values=(), negated=True),
    Not(filter=Compare(operator="gt", key="year", value=0)),
    Not(filter=Contains(key="tags", value="a")),
]


def conditions() -> Strategy[Filter]:
    """Every operator on every field with a value of any type."""
    keys, values = st.sampled_from(sorted(FIELDS)), st.sampled_from(ANY_VALUE)
    return st.one_of(
        st.builds(Compare, operator=st.sampled_from(get_args(Operator)), key=keys, value=values),
        st.builds(In, key=keys, values=st.lists(values, max_size=4).map(tuple), negated=st.booleans()),
        st.builds(Exists, key=keys, value=st.booleans()),
        st.builds(Contains, key=keys, value=st.sampled_from(TEXTS)),
    )


def filters() -> Strategy[Filter]:
    """Trees of conditions."""
    return st.recursive(
        conditions(),
        lambda inner: st.one_of(
            st.builds(And, filters=st.lists(inner, max_size=3).map(tuple)),
            st.builds(Or, filters=st.lists(inner, max_size=3).map(tuple)),
            st.builds(Not, filter=inner),
        ),
        max_leaves=8,
    )


def metadata() -> Strategy[Metadata]:
    """Values, nulls and gaps in the declared fields."""
    values: dict[str, Strategy[Any]] = {
        "language": st.sampled_from(TEXTS),
        "year": st.sampled_from(WHOLE),
        "price": st.sampled_from(REAL),
        "public": st.booleans(),
        "created": st.sampled_from(MOMENTS),
        "tags": st.lists(st.sampled_from(TEXTS), max_size=3),
    }
    return st.fixed_dictionaries({}, optional={key: st.none() | value for key, value in values.items()})


class FilterConformance(Conformance):
    """Filters."""

    async def test_each_condition_on_each_value_passes_what_the_definition_passes(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection([record(i, metadata=row) for i, row in enumerate(ROWS)])

        for filter in (*_each_condition(), *CORNER_CASES):
            await _assert_passes(store, name, filter, ROWS)

    async def test_a_filter_reaches_as_deep_and_as_wide_as_one_may_be(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection([record(i, metadata=row) for i, row in enumerate(ROWS)])
        some: Filter = Compare(operator="gte", key="year", value=1)
        deep = some
        for level in range(MAX_DEPTH - 1):
            deep = Not(filter=deep) if level % 2 else And(filters=(deep,))
        wide = Or(filters=tuple(Compare(operator="eq", key="year", value=i) for i in range(MAX_NODES - 1)))
        many = In(key="language", values=("a", *(f"value {i}" for i in range(MAX_VALUES - 1))))

        for filter in (deep, wide, many):
            await _assert_passes(store, name, filter, ROWS)

    async def test_random_filters_over_random_rows_give_the_exact_stores_answer(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection()

        def examples(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
            @self.examples(0.4)
            @given(st.lists(metadata(), max_size=12), st.lists(filters(), min_size=1, max_size=4))
            def compare(rows: list[Metadata], chosen: list[Filter]) -> None:
                run(_compare(store, name, rows, chosen))

            compare()

        await run_examples(examples)


def _each_condition() -> list[Filter]:
    values: list[Scalar] = ["a", "x" * 300, 1, 2**53 + 1, 2**70, 0.5, 1.0, float("inf"), True, MOMENT]
    comparisons = [
        Compare(operator=operator, key=key, value=value)
        for operator in get_args(Operator)
        for key in FIELDS
        for value in values
    ]
    memberships = [In(key=key, values=tuple(values), negated=negated) for key in FIELDS for negated in (False, True)]
    others = [
        each for key in FIELDS for each in (Exists(key=key), Exists(key=key, value=False), Contains(key=key, value="a"))
    ]
    return [*comparisons, *memberships, *others]


async def _assert_passes(store: VectorStore, name: str, filter: Filter, rows: list[Metadata]) -> None:
    expected = {i for i, row in enumerate(rows) if matches(filter, row)}
    found = [one async for batch in store.scroll(name, SCOPE, selector=filter) for one in batch]
    assert {one.index for one in found} == expected, filter


async def _compare(store: VectorStore, name: str, rows: list[Metadata], chosen: list[Filter]) -> None:
    """Every call that takes a filter answers alike on both stores; deleting comes last, by the first filter."""
    written = [record(i, metadata=row) for i, row in enumerate(rows)]
    memory = await oracle(written)
    await store.delete(name, SCOPE, ByDocument(document=document_of("manual")))
    await write(store, name, written)
    for filter in chosen:
        await _assert_passes(store, name, filter, rows)
        assert await store.count(name, SCOPE, filter) == await memory.count("oracle", SCOPE, filter)
        for search in offered(store, SEARCHES).values():
            assert_same_ranking(await search(store, name, filter=filter), await search(memory, "oracle", filter=filter))
    await store.delete(name, SCOPE, chosen[0])
    await memory.delete("oracle", SCOPE, chosen[0])
    left = zip(await everything(store, name), await everything(memory, "oracle"), strict=True)
    assert all(same(*pair) for pair in left)
