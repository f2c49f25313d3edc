"""Comparisons of a typed column with any scalar, exact where Python's are: numbers across int and float."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rag.core.filters import Operator
from rag.core.types import FieldType, Scalar

_INT64 = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``column <operator> value`` with ``value`` of the column's own type."""

    operator: Operator
    value: Any


def compare_with(type: FieldType, operator: Operator, value: Scalar) -> Comparison | bool:
    """What ``operator value`` asks of a column of ``type``; a bool where each value of it gives the same.

    ``operator`` is any but ``ne``. Another kind of value than the column's compares as false.
    """
    if type in _NUMBERS:
        return _NUMBERS[type](operator, value) if _is_number(value) else False
    if type is FieldType.DATETIME:
        return isinstance(value, datetime) and Comparison(operator=operator, value=value.astimezone(UTC))
    return isinstance(value, _KINDS[type]) and Comparison(operator=operator, value=value)


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_integers(operator: Operator, value: Any) -> Comparison | bool:
    if math.isinf(value) if isinstance(value, float) else not -_INT64 <= value < _INT64:
        return _beyond(operator, above=value > 0)
    if value == int(value):
        return _bounded(operator, int(value))
    if operator == "eq":
        return False
    if operator in ("gt", "gte"):
        return _bounded("gte", math.ceil(value))
    return _bounded("lte", math.floor(value))


def _bounded(operator: Operator, value: int) -> Comparison | bool:
    if -_INT64 <= value < _INT64:
        return Comparison(operator=operator, value=value)
    return _beyond(operator, above=value > 0)


def _beyond(operator: Operator, *, above: bool) -> bool:
    return operator in (("lt", "lte") if above else ("gt", "gte"))


def _with_floats(operator: Operator, value: Any) -> Comparison | bool:
    try:
        nearest = float(value)
    except OverflowError:
        return _beyond(operator, above=value > 0)
    if nearest == value:
        return Comparison(operator=operator, value=nearest)
    if operator == "eq":
        return False
    # No float lies between the value and its nearest one, so the nearest takes the value's place.
    upward = nearest > value
    if operator in ("gt", "gte"):
        return Comparison(operator="gte" if upward else "gt", value=nearest)
    return Comparison(operator="lt" if upward else "lte", value=nearest)


_NUMBERS: Mapping[FieldType, Callable[[Operator, Any], Comparison | bool]] = {
    FieldType.INTEGER: _with_integers,
    FieldType.FLOAT: _with_floats,
}
_KINDS: Mapping[FieldType, type | tuple[()]] = {
    FieldType.STRING: str,
    FieldType.BOOLEAN: bool,
    FieldType.STRINGS: (),
}
