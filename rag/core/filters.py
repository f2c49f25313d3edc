"""Filters over user metadata: one typed tree, its wire form, and the evaluator that defines its meaning.

Two-valued logic. A missing field is null; every comparison on null is false, except under ``ne``,
``nin`` and ``not``. A bool is not an int; int and float compare as numbers. ``contains`` is membership
in a list of strings. Datetimes compare in UTC at microsecond precision; NaN and NUL are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from reprlib import repr as shortened
from typing import Any, Literal, TypeAlias, assert_never

from rag.core.errors import FilterError
from rag.core.types import FieldType, Metadata, MetadataValue, Scalar

MAX_DEPTH = 16
MAX_NODES = 256
MAX_VALUES = 1000

RESERVED_FIELDS = frozenset(
    {
        "id", "vector", "terms", "text", "start", "end", "tenant", "document", "generation", "acl",
        "index", "page", "headings", "quality", "metadata",
    }
)  # fmt: skip

Operator: TypeAlias = Literal["eq", "ne", "gt", "gte", "lt", "lte"]
_OPERATORS: Mapping[str, Operator] = {
    "eq": "eq", "ne": "ne", "gt": "gt", "gte": "gte", "lt": "lt", "lte": "lte",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """``key <operator> value``."""

    operator: Operator
    key: str
    value: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """``key`` equals one of ``values``; ``negated`` is ``nin``."""

    key: str
    values: tuple[Scalar, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exists:
    """``key`` has a value; wire form ``{"type": "exists", "key": …, "value": true|false}``."""

    key: str
    value: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Contains:
    """The list of strings under ``key`` holds ``value``."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    """Every filter holds; an empty one is true."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    """One of the filters holds; an empty one is false."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """The filter does not hold."""

    filter: Filter


Filter: TypeAlias = Compare | In | Exists | Contains | And | Or | Not


def matches(filter: Filter, metadata: Metadata) -> bool:
    """Whether ``metadata`` passes ``filter``: the definition every store is tested against."""
    match filter:
        case Compare(operator=operator, key=key, value=value):
            return _compare(operator, metadata.get(key), value)
        case In(key=key, values=values, negated=negated):
            return any(_compare("eq", metadata.get(key), value) for value in values) is not negated
        case Exists(key=key, value=expected):
            return (metadata.get(key) is not None) is expected
        case Contains(key=key, value=value):
            field = metadata.get(key)
            return isinstance(field, Sequence) and not isinstance(field, str) and value in field
        case And(filters=filters):
            return all(matches(each, metadata) for each in filters)
        case Or(filters=filters):
            return any(matches(each, metadata) for each in filters)
        case Not(filter=inner):
            return not matches(inner, metadata)
        case _:
            assert_never(filter)


def _compare(operator: Operator, field: MetadataValue, value: Scalar) -> bool:
    if operator == "ne":
        return not _compare("eq", field, value)
    if field is None or _kind(field) != _kind(value):
        return False
    left, right = _comparable(field), _comparable(value)
    match operator:
        case "eq":
            return bool(left == right)
        case "gt":
            return bool(left > right)
        case "gte":
            return bool(left >= right)
        case "lt":
            return bool(left < right)
        case "lte":
            return bool(left <= right)
        case _:
            assert_never(operator)


def _kind(value: MetadataValue) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "list" if isinstance(value, Sequence) and not isinstance(value, str) else type(value).__name__


def _comparable(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def parse_filter(wire: object, fields: Mapping[str, FieldType]) -> Filter:
    """Read the wire form against the declared ``fields``; raises :class:`FilterError` naming the fault."""
    return _Reader(fields).read(wire, 1)


class _Reader:
    def __init__(self, fields: Mapping[str, FieldType]) -> None:
        self._fields = fields
        self._nodes = 0

    def read(self, wire: object, depth: int) -> Filter:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise FilterError(f"the filter is larger than {MAX_NODES} conditions or {MAX_DEPTH} levels")
        if not isinstance(wire, Mapping):
            raise FilterError("a filter is an object with a type")
        kind = wire.get("type")
        if kind in ("and", "or", "not"):
            return self._combine(str(kind), wire, depth)
        return self._condition(kind, wire)

    def _combine(self, kind: str, wire: Mapping[Any, Any], depth: int) -> Filter:
        _only(wire, {"type", "filters"})
        inner = wire.get("filters")
        if not isinstance(inner, list):
            raise FilterError(f"{kind} needs a list of filters")
        filters = tuple(self.read(each, depth + 1) for each in inner)
        if kind == "not":
            if len(filters) != 1:
                raise FilterError("not takes exactly one filter")
            return Not(filter=filters[0])
        return And(filters=filters) if kind == "and" else Or(filters=filters)

    def _condition(self, kind: object, wire: Mapping[Any, Any]) -> Filter:
        _only(wire, {"type", "key", "value"})
        key = self._key(wire.get("key"))
        value = wire.get("value")
        if kind == "exists":
            return Exists(key=key, value=_boolean(value))
        if "value" not in wire:
            raise FilterError(f"{kind} needs a value")
        if kind == "contains":
            return self._contains(key, value)
        if kind in ("in", "nin"):
            return self._in(key, value, negated=kind == "nin")
        operator = _OPERATORS.get(kind) if isinstance(kind, str) else None
        if operator is None:
            raise FilterError(f"unknown filter type {shortened(kind)}")
        return self._compare(operator, key, value)

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise FilterError("a condition needs a key")
        if key in RESERVED_FIELDS or key not in self._fields:
            declared = ", ".join(sorted(self._fields)) or "none"
            raise FilterError(f"{shortened(key)} is not a filterable field of this collection; declared: {declared}")
        return key

    def _compare(self, operator: Operator, key: str, value: object) -> Compare:
        kind = self._fields[key]
        if kind is FieldType.STRINGS:
            raise FilterError(f"{key!r} is a list: use contains")
        if kind is FieldType.BOOLEAN and operator not in ("eq", "ne"):
            raise FilterError(f"{key!r} is a boolean: it has no order")
        return Compare(operator=operator, key=key, value=read_scalar(key, value, kind))

    def _in(self, key: str, value: object, *, negated: bool) -> In:
        if not isinstance(value, list) or len(value) > MAX_VALUES:
            raise FilterError(f"in and nin take a list of at most {MAX_VALUES} values")
        kind = self._fields[key]
        if kind is FieldType.STRINGS:
            raise FilterError(f"{key!r} is a list: use contains")
        return In(key=key, values=tuple(read_scalar(key, each, kind) for each in value), negated=negated)

    def _contains(self, key: str, value: object) -> Contains:
        if self._fields[key] is not FieldType.STRINGS:
            raise FilterError(f"{key!r} is not a list: contains does not apply")
        return Contains(key=key, value=_string(key, value))


def read_scalar(key: str, value: object, kind: FieldType) -> Scalar:
    """Turn a JSON value into the declared type of ``key``; raises :class:`FilterError`."""
    match kind:
        case FieldType.STRING | FieldType.STRINGS:
            return _string(key, value)
        case FieldType.BOOLEAN:
            if isinstance(value, bool):
                return value
        case FieldType.INTEGER:
            if isinstance(value, int) and not isinstance(value, bool) and _is_int64(value):
                return value
        case FieldType.FLOAT:
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
                return float(value)
        case FieldType.DATETIME:
            return _datetime(key, value)
        case _:
            assert_never(kind)
    raise FilterError(f"{key!r} is declared {kind}; {shortened(value)} is not one")


def read_metadata(metadata: Mapping[str, Any], fields: Mapping[str, FieldType]) -> Metadata:
    """Check user metadata: declared fields get their type, all else stays JSON of scalars and strings.

    Raises :class:`FilterError` for a value of another type, a reserved name, NaN or NUL.
    """
    return {key: _metadata_value(key, value, fields.get(key)) for key, value in metadata.items()}


def _metadata_value(key: str, value: Any, kind: FieldType | None) -> MetadataValue:
    if key in RESERVED_FIELDS or not key or "\0" in key:
        raise FilterError(f"{key!r} cannot be the name of a metadata field")
    if value is None:
        return None
    if isinstance(value, list):
        if kind not in (None, FieldType.STRINGS):
            raise FilterError(f"{key!r} is declared {kind}, not a list")
        return [_string(key, each) for each in value]
    if kind is FieldType.STRINGS:
        raise FilterError(f"{key!r} is declared a list of strings")
    return read_scalar(key, value, kind or _natural_type(key, value))


def _natural_type(key: str, value: Any) -> FieldType:
    natural = {str: FieldType.STRING, bool: FieldType.BOOLEAN, int: FieldType.INTEGER, float: FieldType.FLOAT}
    if type(value) not in natural:
        raise FilterError(f"{key!r} must be a string, number, boolean or list of strings")
    if type(value) is int and not _is_int64(value):
        # A database gives a large float without a fraction back as digits; it is still that float.
        return FieldType.FLOAT
    return natural[type(value)]


def _is_int64(value: int) -> bool:
    return -(2**63) <= value < 2**63


def dump_filter(filter: Filter) -> dict[str, Any]:
    """The wire form of ``filter``; datetimes in ISO 8601 UTC."""
    match filter:
        case Compare(operator=operator, key=key, value=value):
            return {"type": operator, "key": key, "value": dump_scalar(value)}
        case In(key=key, values=values, negated=negated):
            return {"type": "nin" if negated else "in", "key": key, "value": [dump_scalar(each) for each in values]}
        case Exists(key=key, value=expected):
            return {"type": "exists", "key": key, "value": expected}
        case Contains(key=key, value=text):
            return {"type": "contains", "key": key, "value": text}
        case And(filters=filters):
            return {"type": "and", "filters": [dump_filter(each) for each in filters]}
        case Or(filters=filters):
            return {"type": "or", "filters": [dump_filter(each) for each in filters]}
        case Not(filter=inner):
            return {"type": "not", "filters": [dump_filter(inner)]}
        case _:
            assert_never(filter)


def dump_scalar(value: Scalar) -> str | int | float | bool:
    """A scalar as JSON has it: datetimes in ISO 8601 UTC with microseconds."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return value


def dump_metadata(metadata: Metadata) -> dict[str, Any]:
    """Metadata as JSON: the inverse of :func:`read_metadata` under the same declared fields."""
    return {key: dump_scalar(value) if isinstance(value, datetime) else value for key, value in metadata.items()}


def _only(wire: Mapping[Any, Any], allowed: set[str]) -> None:
    unknown = {str(key) for key in wire} - allowed
    if unknown:
        raise FilterError(f"unknown filter member {', '.join(sorted(unknown))}")


def _boolean(value: object) -> bool:
    if value is None:
        return True
    if not isinstance(value, bool):
        raise FilterError("exists takes true or false")
    return value


def _string(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise FilterError(f"{key!r} holds strings; {shortened(value)} is not one")
    if "\0" in value:
        raise FilterError(f"{key!r} holds a NUL character")
    return value


def _datetime(key: str, value: object) -> datetime:
    if isinstance(value, datetime):
        moment = value
    else:
        try:
            moment = datetime.fromisoformat(_string(key, value))
        except ValueError:
            raise FilterError(f"{key!r} is declared datetime; {shortened(value)} is not ISO 8601") from None
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise FilterError(f"{key!r} lies outside of the years 1 to 9999 in UTC") from None
