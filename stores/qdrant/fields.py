"""How a declared field is kept in the payload, and how it is compared there exactly as Python compares.

Each declared field has a number, so that its name is never part of a path. Under ``f`` lie:

- ``has``: the numbers of the fields that have a value;
- ``v<n>``: the value; a boolean as 0 or 1, a datetime as microseconds since 1970;
- ``h<n>`` and ``l<n>``: upper and lower 32 bits of an integer that a double does not hold, since Qdrant
  compares ranges as doubles;
- ``b<n>_<k>``: the k-th six bytes of a string as an integer, and ``p<n>``: a digest of each longer and longer
  beginning of it, since Qdrant has no order of strings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

from rag.core.errors import FilterError
from rag.core.filters import Operator
from rag.core.types import FieldType, Metadata, Scalar
from stores.qdrant.engine import Condition

ORDERED_BYTES = 1536
"""Strings are ordered by so many bytes of UTF-8; one that is compared with has fewer."""
_BLOCK = 6
_INT64 = 2**63
_DOUBLE = 2**53
_WORD = 2**32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = (FieldType.INTEGER, FieldType.DATETIME, FieldType.BOOLEAN)
_INDEX: TypeAlias = Literal["keyword", "integer", "member", "order", "float"]


def numbers(filterable: Mapping[str, FieldType]) -> dict[str, int]:
    """The number of each declared field."""
    return {name: number for number, name in enumerate(sorted(filterable))}


def path(number: int, part: str = "v", suffix: str = "") -> str:
    """Where a part of the field lies in the payload."""
    return f"f.{part}{number}{suffix}"


def indexes(filterable: Mapping[str, FieldType]) -> Iterator[tuple[str, _INDEX]]:
    """The payload indexes that the declared fields need; the deeper parts of strings have none.

    Of integers, a ``member`` is only compared for equality and an ``order`` only for its range.
    """
    if filterable:
        yield "f.has", "member"
    for name, number in numbers(filterable).items():
        kind = filterable[name]
        if kind in _INTEGERS:
            yield path(number), "integer"
        elif kind is FieldType.FLOAT:
            yield path(number), "float"
        else:
            yield path(number), "keyword"
        if kind is FieldType.STRING:
            yield path(number, "b", "_0"), "order"


def kept(filterable: Mapping[str, FieldType], metadata: Metadata) -> dict[str, Any]:
    """What the payload holds under ``f`` for this metadata."""
    values: dict[str, Any] = {"has": []}
    for name, number in numbers(filterable).items():
        value = metadata.get(name)
        if value is not None:
            values["has"].append(number)
            values.update(_parts(filterable[name], number, value))
    return values


def match(key: str, value: str | int) -> Condition:
    """``key`` equals the value, or holds it."""
    return {"key": key, "match": {"value": value}}


def match_any(key: str, values: Sequence[str] | Sequence[int]) -> Condition:
    """``key`` equals, or holds, one of the values, which are of one type."""
    return {"key": key, "match": {"any": list(values)}}


def present(number: int) -> Condition:
    """The field has a value."""
    return match("f.has", number)


def equal(kind: FieldType, number: int, values: Iterable[Scalar]) -> Condition | bool:
    """The field equals one of the values; values of another kind equal nothing."""
    if kind is FieldType.STRINGS:
        return False
    if kind is FieldType.FLOAT:
        exact = [value for value in map(_exact_float, values) if value is not None]
        each = [_range(path(number), gte=value, lte=value) for value in exact]
        return {"should": each} if each else False
    found = [value for value in map(_exact(kind), values) if value is not None]
    return match_any(path(number), found) if found else False


def ordered(kind: FieldType, number: int, operator: Operator, value: Scalar) -> Condition | bool:
    """``field <operator> value`` for one of ``gt, gte, lt, lte``; another kind of value compares as false."""
    match kind:
        case FieldType.STRING if isinstance(value, str):
            return _string_order(number, operator, value)
        case FieldType.DATETIME if isinstance(value, datetime):
            return _integer_order(number, operator, microseconds(value))
        case FieldType.INTEGER if _is_number(value):
            return _integer_order(number, *_whole(operator, value))
        case FieldType.FLOAT if _is_number(value):
            return _float_order(number, operator, value)
        case FieldType.BOOLEAN if isinstance(value, bool):
            return _integer_order(number, operator, int(value))
        case _:
            return False


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def _parts(kind: FieldType, number: int, value: Any) -> dict[str, Any]:
    if kind is FieldType.STRING:
        return {f"v{number}": value} | _string_parts(number, value)
    if kind is FieldType.STRINGS:
        return {f"v{number}": list(value)}
    if kind is FieldType.FLOAT:
        return {f"v{number}": float(value)}
    whole = microseconds(value) if isinstance(value, datetime) else int(value)
    parts = {f"v{number}": whole}
    return parts if abs(whole) < _DOUBLE else parts | {f"h{number}": whole // _WORD, f"l{number}": whole % _WORD}


def _string_parts(number: int, text: str) -> dict[str, Any]:
    blocks = _blocks(text.encode()[:ORDERED_BYTES])
    parts: dict[str, Any] = {f"b{number}_{k}": block for k, block in enumerate(blocks)}
    return parts | {f"p{number}": _digests(text.encode(), len(blocks))} if len(blocks) > 1 else parts


def _blocks(text: bytes) -> list[int]:
    """Six bytes each, the last one padded, so that it tells where the string ends: no string holds a NUL."""
    count = len(text) // _BLOCK + 1
    padded = text.ljust(count * _BLOCK, b"\0")
    return [int.from_bytes(padded[k * _BLOCK : (k + 1) * _BLOCK]) for k in range(count)]


def _digests(text: bytes, blocks: int) -> list[str]:
    return [f"{k}:{blake2b(text[: k * _BLOCK], digest_size=12).hexdigest()}" for k in range(1, blocks)]


def _string_order(number: int, operator: Operator, value: str) -> Condition:
    encoded = value.encode()
    if len(encoded) >= ORDERED_BYTES:
        raise FilterError(f"text is ordered by its first {ORDERED_BYTES} bytes; compare with a shorter one")
    blocks = _blocks(encoded)
    strict = "gt" if operator in ("gt", "gte") else "lt"
    steps = [_range(path(number, "b", f"_{k}"), **{strict: float(block)}) for k, block in enumerate(blocks)]
    beginnings = [match(path(number, "p"), digest) for digest in _digests(encoded, len(blocks))]
    either = [steps[0], *({"must": [same, step]} for same, step in zip(beginnings, steps[1:], strict=True))]
    return {"should": [*either, match(path(number), value)] if operator in ("gte", "lte") else either}


def _whole(operator: Operator, value: Any) -> tuple[Operator, Any]:
    """The same comparison of an integer with an integer, or with an infinity."""
    if isinstance(value, int) or math.isinf(value) or value == int(value):
        return operator, value if isinstance(value, float) and math.isinf(value) else int(value)
    return ("gte", math.ceil(value)) if operator in ("gt", "gte") else ("lte", math.floor(value))


def _integer_order(number: int, operator: Operator, value: Any) -> Condition | bool:
    if not -_INT64 <= value < _INT64:
        return _beyond(number, operator, above=value > 0)
    if abs(value) < _DOUBLE:
        return _range(path(number), **{operator: float(value)})
    strict = "gt" if operator in ("gt", "gte") else "lt"
    upper, lower = value // _WORD, value % _WORD
    large = [
        _range(path(number, "h"), **{strict: float(upper)}),
        {"must": [match(path(number, "h"), upper), _range(path(number, "l"), **{operator: float(lower)})]},
    ]
    small = [_range(path(number), gt=-float(_DOUBLE), lt=float(_DOUBLE))] if (strict == "lt") is (value > 0) else []
    return {"should": [*large, *small]}


def _float_order(number: int, operator: Operator, value: Any) -> Condition | bool:
    try:
        nearest = float(value)
    except OverflowError:
        return _beyond(number, operator, above=value > 0)
    if math.isinf(nearest):
        return _beyond(number, operator, above=nearest > 0)
    if nearest == value:
        return _range(path(number), **{operator: nearest})
    # No float lies between the value and its nearest one, so the nearest takes the value's place.
    upward = nearest > value
    if operator in ("gt", "gte"):
        return _range(path(number), **{"gte" if upward else "gt": nearest})
    return _range(path(number), **{"lt" if upward else "lte": nearest})


def _beyond(number: int, operator: Operator, *, above: bool) -> Condition | bool:
    return present(number) if operator in (("lt", "lte") if above else ("gt", "gte")) else False


def _range(key: str, **bounds: float) -> Condition:
    return {"key": key, "range": bounds}


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _exact_float(value: Any) -> float | None:
    if not _is_number(value):
        return None
    try:
        return float(value) if math.isfinite(value) and float(value) == value else None
    except OverflowError:
        return None


def _exact(kind: FieldType) -> Any:
    return {
        FieldType.STRING: lambda value: value if isinstance(value, str) else None,
        FieldType.BOOLEAN: lambda value: int(value) if isinstance(value, bool) else None,
        FieldType.DATETIME: lambda value: microseconds(value) if isinstance(value, datetime) else None,
        FieldType.INTEGER: _exact_integer,
    }[kind]


def _exact_integer(value: Any) -> int | None:
    if not _is_number(value) or (isinstance(value, float) and not value.is_integer()):
        return None
    return int(value) if -_INT64 <= value < _INT64 else None
