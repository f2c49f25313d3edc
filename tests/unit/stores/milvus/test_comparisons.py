from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.filters import Compare, Operator, matches
from rag.core.types import FieldType
from stores.milvus.comparisons import Compared, Comparison, OneOf, compare_with, microseconds

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(2**53 - 3, 2**53 + 3),
    st.integers(2**63 - 3, 2**63 + 3),
    st.integers(-(2**63) - 3, -(2**63) + 3),
    st.floats(allow_nan=False),
    st.just(10**400),
)
WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**63), -(2**63) + 2)
APPLY = {"eq": operator.eq, "gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
OPERATORS = st.sampled_from([each for each in get_args(Operator) if each != "ne"])


def _holds(compared: Compared, value: Any) -> bool:
    match compared:
        case Comparison(operator=name, value=than):
            return bool(APPLY[name](value, than))
        case OneOf(values=values):
            return value in values
        case _:
            return compared


@given(WHOLE, OPERATORS, NUMBERS)
def test_an_integer_column_compares_exactly_with_any_number_and_its_literals_fit(
    field: int, name: Operator, value: float
) -> None:
    compared = compare_with(FieldType.INTEGER, name, value)

    if isinstance(compared, Comparison):
        assert type(compared.value) is int
        assert abs(compared.value) < 2**63
    assert _holds(compared, field) is matches(Compare(operator=name, key="x", value=value), {"x": field})


@given(st.floats(allow_nan=False, allow_infinity=False), OPERATORS, NUMBERS)
def test_a_float_column_compares_exactly_with_any_number(field: float, name: Operator, value: float) -> None:
    compared = compare_with(FieldType.FLOAT, name, value)

    assert _holds(compared, field) is matches(Compare(operator=name, key="x", value=value), {"x": field})


@given(st.booleans(), OPERATORS, st.booleans())
def test_a_boolean_column_has_an_order(field: bool, name: Operator, value: bool) -> None:
    compared = compare_with(FieldType.BOOLEAN, name, value)

    assert _holds(compared, int(field)) is matches(Compare(operator=name, key="x", value=value), {"x": field})


@pytest.mark.parametrize("kind", FieldType)
@pytest.mark.parametrize("value", [True, 1, 1.5, "1", datetime(2026, 1, 1, tzinfo=UTC)])
def test_another_kind_of_value_compares_as_false(kind: FieldType, value: Any) -> None:
    numbers = (FieldType.INTEGER, FieldType.FLOAT)
    fits = {bool: (FieldType.BOOLEAN,), str: (FieldType.STRING,), datetime: (FieldType.DATETIME,)}

    compared = compare_with(kind, "gt", value)

    assert (compared is not False) is (kind in fits.get(type(value), numbers))


def test_moments_are_whole_microseconds_in_utc() -> None:
    moment = datetime(2026, 3, 1, 20, 30, 0, 123456, tzinfo=timezone(timedelta(hours=8)))

    assert microseconds(moment) == 1_772_368_200_123_456
    assert microseconds(datetime(1, 1, 1, tzinfo=UTC)) == -62_135_596_800_000_000
