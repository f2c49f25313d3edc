from __future__ import annotations

import math
import operator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.filters import Compare, Operator, matches
from rag.core.types import FieldType
from stores.pgvector.comparisons import Comparison, compare_with

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(2**53 - 3, 2**53 + 3),
    st.integers(2**63 - 3, 2**63 + 3),
    st.floats(allow_nan=False),
    st.just(10**400),
)
APPLY = {"eq": operator.eq, "gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
OPERATORS = st.sampled_from([each for each in get_args(Operator) if each != "ne"])


def _holds(compared: Comparison | bool, value: Any) -> bool:
    return compared if isinstance(compared, bool) else bool(APPLY[compared.operator](value, compared.value))


@given(st.integers(-(2**63), 2**63 - 1), OPERATORS, NUMBERS)
def test_an_integer_column_compares_exactly_with_any_number(field: int, name: Operator, value: float) -> None:
    compared = compare_with(FieldType.INTEGER, name, value)

    assert isinstance(compared, bool) or (type(compared.value) is int and -(2**63) <= compared.value < 2**63)
    assert _holds(compared, field) is matches(Compare(operator=name, key="x", value=value), {"x": field})


@given(st.floats(allow_nan=False, allow_infinity=False), OPERATORS, NUMBERS)
def test_a_float_column_compares_exactly_with_any_number(field: float, name: Operator, value: float) -> None:
    compared = compare_with(FieldType.FLOAT, name, value)

    assert isinstance(compared, bool) or not math.isnan(compared.value)
    assert _holds(compared, field) is matches(Compare(operator=name, key="x", value=value), {"x": field})


@pytest.mark.parametrize("kind", FieldType)
@pytest.mark.parametrize("value", [True, 1, 1.0, "1"])
def test_another_kind_of_value_is_equal_to_nothing(kind: FieldType, value: Any) -> None:
    fits: dict[FieldType, Any] = {
        FieldType.STRING: str,
        FieldType.INTEGER: (int, float),
        FieldType.FLOAT: (int, float),
        FieldType.BOOLEAN: bool,
    }
    number_and_bool = isinstance(value, bool) is not (kind is FieldType.BOOLEAN)
    expected = isinstance(value, fits.get(kind, ())) and not number_and_bool

    assert (compare_with(kind, "eq", value) is not False) is expected
