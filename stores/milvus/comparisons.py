"""Comparisons of a typed column with any scalar, exact where Python's are: numbers across int and float."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeGuard

from rag.core.filters import Operator
from rag.core.types import FieldType, Scalar

INT64 = 2**63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ORDERS: dict[Operator, Any] = {
    "eq": lambda left, right: left == right,
    "gt": lambda left, right: left > right,
    "gte": lambda left, right: left >= right,
    "lt": lambda left, right: left < right,
    "lte": lambda left, right: left <= right,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``column <operator> value`` with ``value`` as the column keeps it."""

    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """The column holds one of ``values``."""

    values: tuple[Any, ...]


Compared: TypeAlias = Comparison | OneOf | bool
"""What is asked of a column; a bool where each value of it gives the same."""


def compare_with(type: FieldType, operator: Operator, value: Scalar) -> Compared:
    """What ``operator value`` asks of a column of ``type``.

    ``operator`` is any but ``ne``. Another kind of value than the column's compares as false.
    """
    match type:
        case FieldType.INTEGER:
            return _with_integers(operator, value) if _is_number(value) else False
        case FieldType.FLOAT:
            return _with_floats(operator, value) if _is_number(value) else False
        case FieldType.DATETIME:
            return isinstance(value, datetime) and Comparison(operator=operator, value=microseconds(value))
        case FieldType.BOOLEAN:
            return isinstance(value, bool) and _with_booleans(operator, value=value)
        case FieldType.STRING:
            return isinstance(value, str) and Comparison(operator=operator, value=value)
        case _:
            return False


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 in UTC, exact."""
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def _is_number(value: Scalar) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_booleans(operator: Operator, *, value: bool) -> OneOf:
    return OneOf(values=tuple(int(each) for each in (False, True) if _ORDERS[operator](each, value)))


def _with_integers(operator: Operator, value: float) -> Comparison | bool:
    if value in (math.inf, -math.inf):
        return _beyond(operator, above=value > 0)
    whole = int(value)
    if whole == value:
        return _bounded(operator, whole)
    if operator == "eq":
        return False
    if operator in ("gt", "gte"):
        return _bounded("gte", math.ceil(value))
    return _bounded("lte", math.floor(value))


def _bounded(operator: Operator, value: int) -> Comparison | bool:
    if not -INT64 <= value < INT64:
        return _beyond(operator, above=value > 0)
    if value > -INT64:
        return Comparison(operator=operator, value=value)
    # A server reads a literal's sign apart from its digits, which alone are no 64-bit number here.
    if operator in ("eq", "lte"):
        return Comparison(operator="lt", value=value + 1)
    return Comparison(operator="gte", value=value + 1) if operator == "gt" else operator == "gte"


def _beyond(operator: Operator, *, above: bool) -> bool:
    return operator in (("lt", "lte") if above else ("gt", "gte"))


def _with_floats(operator: Operator, value: float) -> Comparison | bool:
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if math.isinf(nearest):
        return _beyond(operator, above=nearest > 0)
    if nearest == value:
        return Comparison(operator=operator, value=nearest)
    if operator == "eq":
        return False
    # No float lies between the value and its nearest one, so the nearest takes the value's place.
    upward = nearest > value
    if operator in ("gt", "gte"):
        return Comparison(operator="gte" if upward else "gt", value=nearest)
    return Comparison(operator="lt" if upward else "lte", value=nearest)
