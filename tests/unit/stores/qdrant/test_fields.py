"""Fields in the payload compare as Python's values do, where Qdrant alone would round or know no order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import FilterError
from rag.core.filters import Compare, In, Operator, matches
from rag.core.types import FieldType
from stores.qdrant import fields
from stores.qdrant.engine import Condition

EDGES = [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**32, 0]
WHOLE = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([sign * edge for edge in EDGES for sign in (1, -1)])
TEXT = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=20) | st.sampled_from(
    ["", "abcdef", "abcdefg", "abcdefghijkl", "abcdefghijklm", "中文字", "ä"]
)
MOMENT = st.datetimes(timezones=st.just(UTC))
VALUES: dict[FieldType, st.SearchStrategy[Any]] = {
    FieldType.INTEGER: WHOLE,
    FieldType.FLOAT: st.floats(allow_nan=False, allow_infinity=False) | WHOLE.map(float),
    FieldType.STRING: TEXT,
    FieldType.DATETIME: MOMENT,
    FieldType.BOOLEAN: st.booleans(),
}
ANY = st.one_of(WHOLE, st.integers(-(2**70), 2**70), st.floats(allow_nan=False), TEXT, MOMENT, st.booleans())


def _holds(condition: Condition | bool, payload: dict[str, Any]) -> bool:
    """What Qdrant says: ranges in doubles, lists by membership, a missing key never."""
    match condition:
        case bool():
            return condition
        case {"should": inner}:
            return any(_holds(each, payload) for each in inner)
        case {"must": inner}:
            return all(_holds(each, payload) for each in inner)
        case {"key": key, "match": {"value": value}}:
            return value in _stored(payload, key)
        case {"key": key, "match": {"any": values}}:
            return any(value in _stored(payload, key) for value in values)
        case {"key": key, "range": bounds}:
            return any(_within(float(value), bounds) for value in _stored(payload, key))
        case _:
            raise AssertionError(condition)


def _stored(payload: dict[str, Any], key: str) -> list[Any]:
    value = payload.get(key.removeprefix("f."))
    return value if isinstance(value, list) else [] if value is None else [value]


def _within(value: float, bounds: dict[str, float]) -> bool:
    holds = {"gt": value.__gt__, "gte": value.__ge__, "lt": value.__lt__, "lte": value.__le__}
    return all(holds[name](float(bound)) for name, bound in bounds.items())


@given(st.data(), st.sampled_from(sorted(VALUES)), st.sampled_from(["gt", "gte", "lt", "lte"]))
def test_an_order_is_pythons(data: st.DataObject, kind: FieldType, operator: Operator) -> None:
    kept = data.draw(VALUES[kind])
    value = data.draw(st.one_of(VALUES[kind], ANY, st.just(kept)))
    payload = fields.kept({"x": kind}, {"x": kept})

    found = _holds(fields.ordered(kind, 0, operator, value), payload)

    assert found is matches(Compare(operator=operator, key="x", value=value), {"x": kept})


@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_equality_is_pythons(data: st.DataObject, kind: FieldType) -> None:
    kept = data.draw(VALUES[kind])
    values = tuple(data.draw(st.lists(st.one_of(VALUES[kind], ANY, st.just(kept)), max_size=4)))
    payload = fields.kept({"x": kind}, {"x": kept})

    found = _holds(fields.equal(kind, 0, values), payload)

    assert found is matches(In(key="x", values=values), {"x": kept})


@pytest.mark.parametrize("operator", [each for each in get_args(Operator) if each not in ("eq", "ne")])
def test_a_missing_field_is_in_no_order(operator: Operator) -> None:
    payload = fields.kept({"x": FieldType.INTEGER}, {})

    assert not _holds(fields.ordered(FieldType.INTEGER, 0, operator, 2**60), payload)


def test_text_that_is_too_long_to_be_ordered_is_refused_but_found() -> None:
    long = "x" * 5000
    payload = fields.kept({"x": FieldType.STRING}, {"x": long})

    with pytest.raises(FilterError):
        fields.ordered(FieldType.STRING, 0, "gt", long)

    assert _holds(fields.equal(FieldType.STRING, 0, [long]), payload)
    assert _holds(fields.ordered(FieldType.STRING, 0, "gt", "x" * 1000), payload)


def test_a_moment_is_kept_to_the_microsecond() -> None:
    moment = datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC)

    assert fields.microseconds(moment) - fields.microseconds(moment - timedelta(microseconds=1)) == 1


def test_the_name_of_a_field_is_in_no_path() -> None:
    filterable = {'odd "name" [0].x': FieldType.STRING, "tenant": FieldType.INTEGER}

    paths = [path for path, _ in fields.indexes(filterable)]

    assert paths == ["f.has", "f.v0", "f.b0_0", "f.v1"]
