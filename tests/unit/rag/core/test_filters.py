"""What filters mean, and that their wire form is read strictly."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import FilterError
from rag.core.filters import (
    MAX_DEPTH,
    And,
    Compare,
    Filter,
    In,
    Not,
    Or,
    dump_filter,
    dump_metadata,
    matches,
    parse_filter,
    read_metadata,
)
from rag.core.types import FieldType

FIELDS = {
    "year": FieldType.INTEGER,
    "score": FieldType.FLOAT,
    "部门": FieldType.STRING,
    "public": FieldType.BOOLEAN,
    "due": FieldType.DATETIME,
    "tags": FieldType.STRINGS,
}
SAMPLE = {
    "year": 2024,
    "score": 0.5,
    "部门": "港务局",
    "public": True,
    "due": datetime(2026, 1, 2, 3, tzinfo=UTC),
    "tags": ["a", "b"],
}


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        ({"type": "eq", "key": "year", "value": 2024}, True),
        ({"type": "ne", "key": "year", "value": 2024}, False),
        ({"type": "gte", "key": "year", "value": 2024}, True),
        ({"type": "gt", "key": "year", "value": 2024}, False),
        ({"type": "lt", "key": "score", "value": 1}, True),
        ({"type": "lte", "key": "score", "value": 0.4}, False),
        ({"type": "eq", "key": "部门", "value": "港务局"}, True),
        ({"type": "in", "key": "部门", "value": ["x", "港务局"]}, True),
        ({"type": "nin", "key": "部门", "value": ["x", "港务局"]}, False),
        ({"type": "eq", "key": "public", "value": True}, True),
        ({"type": "contains", "key": "tags", "value": "b"}, True),
        ({"type": "contains", "key": "tags", "value": "c"}, False),
        ({"type": "exists", "key": "tags"}, True),
        ({"type": "exists", "key": "tags", "value": False}, False),
        ({"type": "lt", "key": "due", "value": "2026-01-02T12:00:00+09:00"}, False),
        ({"type": "lte", "key": "due", "value": "2026-01-02T12:00:00+09:00"}, True),
        ({"type": "and", "filters": []}, True),
        ({"type": "or", "filters": []}, False),
        ({"type": "not", "filters": [{"type": "eq", "key": "year", "value": 2023}]}, True),
    ],
)
def test_a_filter_means_what_it_says(wire: dict[str, Any], expected: bool) -> None:
    assert matches(parse_filter(wire, FIELDS), SAMPLE) is expected


@pytest.mark.parametrize("kind", ["eq", "gt", "gte", "lt", "lte"])
def test_a_comparison_on_a_missing_field_is_false(kind: str) -> None:
    assert not matches(parse_filter({"type": kind, "key": "year", "value": 1}, FIELDS), {})


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "ne", "key": "year", "value": 1},
        {"type": "nin", "key": "year", "value": [1]},
        {"type": "not", "filters": [{"type": "eq", "key": "year", "value": 1}]},
        {"type": "exists", "key": "year", "value": False},
    ],
)
def test_a_negation_on_a_missing_field_is_true(wire: dict[str, Any]) -> None:
    assert matches(parse_filter(wire, FIELDS), {})


def test_a_bool_is_not_an_int() -> None:
    assert not matches(Compare(operator="eq", key="x", value=1), {"x": True})


def test_an_int_equals_the_same_float() -> None:
    assert matches(In(key="x", values=(2.0,)), {"x": 2})


@pytest.mark.parametrize(
    ("wire", "named"),
    [
        ([], "object"),
        ({"type": "eq", "key": "tenant", "value": "b"}, "tenant"),
        ({"type": "eq", "key": "nowhere", "value": 1}, "nowhere"),
        ({"type": "like", "key": "year", "value": 1}, "like"),
        ({"type": "eq", "key": "year"}, "value"),
        ({"type": "eq", "key": "year", "value": True}, "integer"),
        ({"type": "eq", "key": "year", "value": 2**63}, "integer"),
        ({"type": "eq", "key": "score", "value": math.nan}, "float"),
        ({"type": "eq", "key": "部门", "value": "a\0b"}, "NUL"),
        ({"type": "gt", "key": "public", "value": True}, "order"),
        ({"type": "eq", "key": "tags", "value": "a"}, "contains"),
        ({"type": "contains", "key": "year", "value": "a"}, "list"),
        ({"type": "in", "key": "year", "value": 3}, "list"),
        ({"type": "eq", "key": "due", "value": "soon"}, "ISO 8601"),
        ({"type": "not", "filters": []}, "exactly one"),
        ({"type": "and", "filters": [], "key": "x"}, "key"),
        ({"type": "eq", "key": "year", "value": 1, "extra": 2}, "extra"),
    ],
)
def test_a_faulty_filter_is_refused_naming_the_fault(wire: Any, named: str) -> None:
    with pytest.raises(FilterError, match=named):
        parse_filter(wire, FIELDS)


def test_a_filter_nested_too_deep_is_refused() -> None:
    wire: dict[str, Any] = {"type": "eq", "key": "year", "value": 1}
    for _ in range(MAX_DEPTH):
        wire = {"type": "not", "filters": [wire]}

    with pytest.raises(FilterError, match="levels"):
        parse_filter(wire, FIELDS)


conditions = st.one_of(
    st.builds(
        Compare, operator=st.sampled_from(["eq", "ne", "gt", "lt"]), key=st.just("year"), value=st.integers(-9, 9)
    ),
    st.builds(
        In, key=st.just("部门"), values=st.lists(st.text("港a'\\", max_size=3)).map(tuple), negated=st.booleans()
    ),
)
trees: st.SearchStrategy[Filter] = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds(And, filters=st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, filters=st.lists(inner, max_size=3).map(tuple)),
        st.builds(Not, filter=inner),
    ),
    max_leaves=8,
)


@given(trees)
def test_the_wire_form_gives_the_same_filter_back(filter: Filter) -> None:
    assert parse_filter(dump_filter(filter), FIELDS) == filter


@given(trees, st.fixed_dictionaries({}, optional={"year": st.integers(-9, 9), "部门": st.text("港a'\\", max_size=3)}))
def test_not_is_the_exact_opposite(filter: Filter, metadata: dict[str, Any]) -> None:
    assert matches(Not(filter=filter), metadata) is not matches(filter, metadata)


def test_metadata_survives_its_json_form() -> None:
    metadata = read_metadata({"due": "2026-01-02T03:04:05+08:00", "tags": ["a"], "note": "自由", "n": 1.5}, FIELDS)

    assert metadata["due"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=8)))
    assert read_metadata(dump_metadata(metadata), FIELDS) == metadata


@pytest.mark.parametrize(
    "metadata",
    [
        {"tenant": "b"},
        {"": 1},
        {"a\0": 1},
        {"x": "a\0"},
        {"x": {"y": 1}},
        {"x": [1]},
        {"x": math.inf},
        {"year": "2024"},
        {"tags": "a"},
        {"year": [1]},
    ],
)
def test_metadata_that_no_store_could_keep_alike_is_refused(metadata: dict[str, Any]) -> None:
    with pytest.raises(FilterError):
        read_metadata(metadata, FIELDS)


@pytest.mark.parametrize("value", [1e30, -1e30, 1e16, 1.7e308])
def test_a_large_number_survives_a_database_that_gives_it_back_as_digits(value: float) -> None:
    digits = {"size": int(value)}

    assert read_metadata(digits, FIELDS) == {"size": value}


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_a_moment_that_has_no_year_in_utc_is_refused(moment: str) -> None:
    with pytest.raises(FilterError, match="due"):
        read_metadata({"due": moment}, FIELDS)


def test_a_refusal_does_not_repeat_a_huge_value() -> None:
    with pytest.raises(FilterError) as caught:
        read_metadata({"year": "x" * 1_000_000}, FIELDS)

    assert len(caught.value.message) < 200
