"""How a filterable field lies in typed columns of an engine that knows no null.

What is missing is told from what is there within the column wherever the type leaves room for that, because a
collection has at most 64 columns: texts carry a mark in front, lists carry it as a member, and for booleans and
datetimes one number is free. For integers and floats, which leave none, a second column says that they are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from rag.core.errors import InvalidRequestError
from rag.core.types import FieldType, Metadata
from stores.milvus.comparisons import INT64, microseconds

MARK = "="
"""In front of each text that is there, and alone as a member of each list that is."""
ABSENT = -INT64 + 1
"""In the place of a missing datetime; none that can be written comes near."""
NO_BOOLEAN = -1
TEXT_BYTES = 65_535
MEMBERS = 4096
"""How many members an array may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A filterable field's column: its generated name and its type."""

    name: str
    type: FieldType

    @property
    def flag(self) -> str | None:
        """The column that says whether this one holds a value, where it needs one."""
        return f"h{self.name}" if self.type in (FieldType.INTEGER, FieldType.FLOAT) else None


def columns_of(fields: Mapping[str, FieldType]) -> dict[str, Column]:
    """A column a field, named by the field's place in sorted order, since any text is a legal field name."""
    return {key: Column(name=f"f{place}", type=fields[key]) for place, key in enumerate(sorted(fields))}


def stored_fields(columns: Mapping[str, Column], metadata: Metadata) -> dict[str, Any]:
    """The fields' columns of one record; raises ``InvalidRequestError`` for a value that a column cannot hold."""
    stored: dict[str, Any] = {}
    for key, column in columns.items():
        value = metadata.get(key)
        stored[column.name] = _stored(key, column, value)
        if column.flag:
            stored[column.flag] = value is not None
    return stored


def stored_list(what: str, members: Sequence[str]) -> list[str]:
    """The members as an array takes them; raises ``InvalidRequestError``."""
    if len(members) >= MEMBERS:
        raise InvalidRequestError(f"{what} has more than {MEMBERS - 1} members")
    return [check_bytes(what, member) for member in members]


def check_bytes(what: str, text: str) -> str:
    """The text; raises ``InvalidRequestError`` where it is longer than a column takes."""
    # A code point takes at most four bytes, so most texts need not be encoded to be let through.
    if len(text) * 4 > TEXT_BYTES and len(text.encode()) > TEXT_BYTES:
        raise InvalidRequestError(f"{what} takes more than the {TEXT_BYTES} bytes that Milvus keeps of a text")
    return text


def _stored(key: str, column: Column, value: Any) -> Any:
    match column.type:
        case FieldType.STRING:
            return "" if value is None else check_bytes(f"the field {key!r}", MARK + value)
        case FieldType.STRINGS:
            return [] if value is None else stored_list(f"the field {key!r}", [MARK, *(MARK + each for each in value)])
        case FieldType.BOOLEAN:
            return NO_BOOLEAN if value is None else int(value)
        case FieldType.DATETIME:
            return ABSENT if value is None else microseconds(value)
        case FieldType.INTEGER | FieldType.FLOAT:
            return 0 if value is None else value
        case _:
            assert_never(column.type)
