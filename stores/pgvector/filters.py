"""Filters as SQL conditions that mean exactly what ``rag.core.filters.matches`` means.

``not`` is pushed down to the conditions, so that no SQL ``not`` ever meets a null: a plain condition lets
null fall out, and a negated one lets it in by name. Values travel as parameters, columns are generated names.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from psycopg import sql

from rag.core.errors import FilterError
from rag.core.filters import And, Compare, Contains, Exists, Filter, In, Not, Operator, Or
from rag.core.types import FieldType, Scalar
from stores.pgvector.comparisons import Comparison, compare_with

KEY_LENGTH = 256
"""Characters of a string that its index covers; PostgreSQL refuses longer index rows."""

_SYMBOLS: Mapping[Operator, str] = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_KEY_SYMBOLS: Mapping[Operator, str] = {"eq": "=", "gt": ">=", "gte": ">=", "lt": "<=", "lte": "<="}
_TYPES: Mapping[FieldType, str] = {
    FieldType.STRING: "text",
    FieldType.INTEGER: "int8",
    FieldType.FLOAT: "float8",
    FieldType.BOOLEAN: "bool",
    FieldType.DATETIME: "timestamptz",
    FieldType.STRINGS: "text[]",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A filterable field's column: its generated name and its type."""

    name: str
    type: FieldType

    @property
    def sql_type(self) -> str:
        """The PostgreSQL type."""
        return _TYPES[self.type]

    @property
    def keys(self) -> str:
        """Name of the column of checksums by which a list of strings is indexed."""
        return f"{self.name}_keys"


def columns(fields: Mapping[str, FieldType]) -> dict[str, Column]:
    """A column a field, named by the field's place in sorted order, since any text is a legal field name."""
    return {key: Column(name=f"f{place}", type=fields[key]) for place, key in enumerate(sorted(fields))}


def string_keys(values: Sequence[str]) -> list[int]:
    """Signed 32-bit checksums of the strings, which an index holds whatever their length."""
    return [zlib.crc32(value.encode()) - 2**31 for value in values]


@dataclass(slots=True)
class Compiler:
    """Turns filters into conditions and gathers their parameters under numbered names."""

    columns: Mapping[str, Column]
    parameters: dict[str, Any] = field(default_factory=dict)

    def compile(self, filter: Filter, *, negated: bool = False) -> sql.Composable:
        """The condition under which ``filter`` holds, or does not; raises ``FilterError`` for an unknown key."""
        match filter:
            case And(filters=filters):
                return self._joined(filters, negated=negated, conjunction=not negated)
            case Or(filters=filters):
                return self._joined(filters, negated=negated, conjunction=negated)
            case Not(filter=inner):
                return self.compile(inner, negated=not negated)
            case Exists(key=key, value=expected):
                test = "{} is not null" if expected is not negated else "{} is null"
                return sql.SQL(test).format(_name(self._column(key)))
            case Contains(key=key, value=value):
                return _truth(self._column(key), self._contains(self._column(key), value), negated=negated)
            case In(key=key, values=values, negated=excluded):
                return _truth(self._column(key), self._in(self._column(key), values), negated=excluded is not negated)
            case Compare(operator="ne", key=key, value=value):
                return self.compile(Compare(operator="eq", key=key, value=value), negated=not negated)
            case Compare(operator=operator, key=key, value=value):
                column = self._column(key)
                return _truth(column, self._compare(column, operator, value), negated=negated)
            case _:
                assert_never(filter)

    def _joined(self, filters: tuple[Filter, ...], *, negated: bool, conjunction: bool) -> sql.Composable:
        if not filters:
            return _constant(conjunction)
        parts = [self.compile(each, negated=negated) for each in filters]
        return sql.SQL("({})").format(sql.SQL(" and " if conjunction else " or ").join(parts))

    def _column(self, key: str) -> Column:
        try:
            return self.columns[key]
        except KeyError:
            raise FilterError(f"{key!r} is not a filterable field of this collection") from None

    def _contains(self, column: Column, value: str) -> sql.Composable | None:
        if column.type is not FieldType.STRINGS:
            return None
        return sql.SQL("({} @> {} and {} @> {})").format(
            sql.Identifier(column.keys),
            self._parameter(string_keys([value]), "int4[]"),
            _name(column),
            self._parameter([value], "text[]"),
        )

    def _in(self, column: Column, values: tuple[Scalar, ...]) -> sql.Composable | None:
        compared = (compare_with(column.type, "eq", value) for value in values)
        same = [each.value for each in compared if isinstance(each, Comparison)]
        if not same:
            return None
        held = sql.SQL("{} = any({})").format(_name(column), self._parameter(same, f"{column.sql_type}[]"))
        if column.type is not FieldType.STRING:
            return held
        keys = self._parameter([value[:KEY_LENGTH] for value in same], "text[]")
        return sql.SQL("({} = any({}) and {})").format(index_key(column), keys, held)

    def _compare(self, column: Column, operator: Operator, value: Scalar) -> sql.Composable | None:
        match compare_with(column.type, operator, value):
            case False:
                return None
            case True:
                return sql.SQL("{} is not null").format(_name(column))
            case Comparison(operator=exact, value=exact_value):
                return self._typed(column, exact, exact_value)

    def _typed(self, column: Column, operator: Operator, value: Any) -> sql.Composable:
        parameter = self._parameter(value, column.sql_type)
        held = sql.SQL("{} {} {}").format(_name(column), sql.SQL(_SYMBOLS[operator]), parameter)
        if column.type is not FieldType.STRING:
            return held
        key = self._parameter(value[:KEY_LENGTH], "text")
        return sql.SQL("({} {} {} and {})").format(index_key(column), sql.SQL(_KEY_SYMBOLS[operator]), key, held)

    def _parameter(self, value: Any, sql_type: str) -> sql.Composable:
        name = f"x{len(self.parameters)}"
        self.parameters[name] = value
        return sql.SQL("{}::{}").format(sql.Placeholder(name), sql.SQL(sql_type))


def index_key(column: Column) -> sql.Composable:
    """The expression by which a string column is indexed."""
    return sql.SQL("left({}, {})").format(_name(column), sql.Literal(KEY_LENGTH))


def _truth(column: Column, held: sql.Composable | None, *, negated: bool) -> sql.Composable:
    """``held`` (never, where it is ``None``), or its opposite, which null passes."""
    if held is None:
        return _constant(negated)
    return sql.SQL("({} is null or not {})").format(_name(column), held) if negated else held


def _name(column: Column) -> sql.Composable:
    return sql.Identifier(column.name)


def _constant(value: object) -> sql.Composable:
    return sql.SQL("true" if value else "false")
