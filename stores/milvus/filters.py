"""Filters as conditions of Milvus that mean exactly what ``rag.core.filters.matches`` means.

``not`` is pushed down to the comparisons, each of which says by itself what becomes of a missing value. A part
that holds for every record, or for none, is folded away: Milvus has no literal for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never
from uuid import UUID

from rag.core.errors import FilterError
from rag.core.filters import And, Compare, Contains, Exists, Filter, In, Not, Operator, Or
from rag.core.ports import Selector
from rag.core.records import ByDocument, ByIds
from rag.core.types import FieldType, Scalar, Scope
from stores.milvus.columns import ABSENT, MARK, NO_BOOLEAN, Column
from stores.milvus.comparisons import Compared, Comparison, OneOf, compare_with
from stores.milvus.engine import Engine
from stores.milvus.keys import primary_key
from stores.milvus.literals import Values, values_for

Condition: TypeAlias = str | bool
"""A condition's text, or what it is for every record."""

_SYMBOLS: Mapping[Operator, str] = {"eq": "==", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_OPPOSITES: Mapping[str, str] = {"==": "!=", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which records a request means: a condition and the values that travel beside it."""

    text: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def after(self, key: str) -> Where:
        """Those of them whose primary key, letters and digits alone, comes after ``key``."""
        return Where(text=f'({self.text}) and pk > "{key}"', parameters=self.parameters)

    def among(self, keys: Sequence[str]) -> Where:
        """Those of them that have one of the primary ``keys``, letters and digits alone."""
        listed = ", ".join(f'"{key}"' for key in keys)
        return Where(text=f"({self.text}) and pk in [{listed}]", parameters=self.parameters)


EVERYTHING = Where(text='pk >= ""')


def where(engine: Engine, columns: Mapping[str, Column], scope: Scope, selector: Selector | None) -> Where | None:
    """What the selector names within the scope; ``None`` where that can be no record."""
    compiler = Compiler(columns=columns, values=values_for(engine))
    condition = _all([*compiler.scope(scope), compiler.selector(scope, selector)])
    return Where(text=str(condition), parameters=compiler.values.parameters) if condition is not False else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """Turns filters into conditions on the ``columns``."""

    columns: Mapping[str, Column]
    values: Values

    def scope(self, scope: Scope) -> list[Condition]:
        """What every request of the scope is bound to."""
        tenant = f"tenant == {self.values.write(scope.tenant)}"
        if scope.groups is None:
            return [tenant]
        if not scope.groups:
            return [tenant, "everyone == true"]
        groups = self.values.write(sorted(scope.groups))
        return [tenant, f"(everyone == true or array_contains_any(acl, {groups}))"]

    def selector(self, scope: Scope, selector: Selector | None) -> Condition:
        """What the selector names."""
        match selector:
            case None:
                return True
            case ByIds(ids=ids):
                return f"pk in {self.values.write([primary_key(scope.tenant, id) for id in ids])}" if ids else False
            case ByDocument(document=document, generation=generation):
                return self._document(document, generation)
            case _:
                return self.compile(selector)

    def compile(self, filter: Filter, *, negated: bool = False) -> Condition:
        """The condition under which ``filter`` holds, or does not; raises ``FilterError`` for an unknown key."""
        match filter:
            case And(filters=filters):
                return self._joined(filters, negated=negated, conjunction=not negated)
            case Or(filters=filters):
                return self._joined(filters, negated=negated, conjunction=negated)
            case Not(filter=inner):
                return self.compile(inner, negated=not negated)
            case Exists(key=key, value=expected):
                return _exists(self._column(key), expected=expected is not negated)
            case Contains(key=key, value=value):
                return self._contains(self._column(key), value, negated=negated)
            case In(key=key, values=values, negated=excluded):
                return self._in(self._column(key), values, negated=excluded is not negated)
            case Compare(operator="ne", key=key, value=value):
                return self.compile(Compare(operator="eq", key=key, value=value), negated=not negated)
            case Compare(operator=operator, key=key, value=value):
                return self._compare(self._column(key), operator, value, negated=negated)
            case _:
                assert_never(filter)

    def _joined(self, filters: tuple[Filter, ...], *, negated: bool, conjunction: bool) -> Condition:
        parts = [self.compile(each, negated=negated) for each in filters]
        return _all(parts) if conjunction else _any(parts)

    def _column(self, key: str) -> Column:
        try:
            return self.columns[key]
        except KeyError:
            raise FilterError(f"{key!r} is not a filterable field of this collection") from None

    def _document(self, document: UUID, generation: int | None) -> Condition:
        found = f'document == "{document.hex}"'
        return found if generation is None else f"{found} and generation == {generation:d}"

    def _contains(self, column: Column, value: str, *, negated: bool) -> Condition:
        if column.type is not FieldType.STRINGS:
            return negated
        held = f"array_contains({column.name}, {self.values.write(MARK + value)})"
        return f"(not {held})" if negated else held

    def _in(self, column: Column, values: tuple[Scalar, ...], *, negated: bool) -> Condition:
        compared = [compare_with(column.type, "eq", value) for value in values]
        same = [each.value for each in compared if isinstance(each, Comparison) and each.operator == "eq"]
        others = [each for each in compared if not (isinstance(each, Comparison) and each.operator == "eq")]
        parts = [self._held(column, each, negated=negated) for each in others]
        if same:
            listed = self.values.write([_stored(column, value) for value in same])
            test = f"{column.name} {'not in' if negated else 'in'} {listed}"
            parts.append(_guarded(column, test, negated=negated, below=False))
        return _all(parts) if negated else _any(parts)

    def _compare(self, column: Column, operator: Operator, value: Scalar, *, negated: bool) -> Condition:
        return self._held(column, compare_with(column.type, operator, value), negated=negated)

    def _held(self, column: Column, compared: Compared, *, negated: bool) -> Condition:
        match compared:
            case True:
                return _exists(column, expected=not negated)
            case False:
                return negated
            case OneOf(values=values):
                if not values:
                    return negated
                return f"{column.name} {'not in' if negated else 'in'} [{', '.join(map(str, values))}]"
            case Comparison(operator=operator, value=value):
                symbol = _OPPOSITES[_SYMBOLS[operator]] if negated else _SYMBOLS[operator]
                test = f"{column.name} {symbol} {self.values.write(_stored(column, value))}"
                return _guarded(column, test, negated=negated, below=operator in ("lt", "lte"))


def _stored(column: Column, value: Any) -> Any:
    return MARK + value if column.type is FieldType.STRING else value


def _exists(column: Column, *, expected: bool) -> Condition:
    match column.type:
        case FieldType.STRING:
            return f'{column.name} {"!=" if expected else "=="} ""'
        case FieldType.STRINGS:
            held = f'array_contains({column.name}, "{MARK}")'
            return held if expected else f"(not {held})"
        case FieldType.BOOLEAN:
            return f"{column.name} {'!=' if expected else '=='} {NO_BOOLEAN}"
        case FieldType.DATETIME:
            return f"{column.name} {'!=' if expected else '=='} {ABSENT}"
        case _:
            return f"{column.flag} == {'true' if expected else 'false'}"


def _guarded(column: Column, test: str, *, negated: bool, below: bool) -> Condition:
    """The test, with what a missing value stands for kept from passing it, or let pass where it is negated.

    A missing text or datetime lies below all others, so only a test for what lies ``below`` needs the guard.
    """
    if column.flag or below:
        return f"({_exists(column, expected=not negated)} {'or' if negated else 'and'} {test})"
    return test


def _all(parts: Sequence[Condition]) -> Condition:
    if any(part is False for part in parts):
        return False
    texts = [part for part in parts if isinstance(part, str)]
    return _joined(texts, " and ") if texts else True


def _any(parts: Sequence[Condition]) -> Condition:
    if any(part is True for part in parts):
        return True
    texts = [part for part in parts if isinstance(part, str)]
    return _joined(texts, " or ") if texts else False


def _joined(texts: Sequence[str], word: str) -> str:
    return texts[0] if len(texts) == 1 else f"({word.join(texts)})"
