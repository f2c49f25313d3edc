"""The caller's scope, selector and filter as one condition of Qdrant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, assert_never
from uuid import UUID

from rag.core.filters import And, Compare, Contains, Exists, Filter, In, Not, Or
from rag.core.ports import Selector
from rag.core.records import ByDocument, ByIds
from rag.core.types import FieldType, Scalar, Scope
from stores.qdrant import fields
from stores.qdrant.engine import Condition
from stores.qdrant.points import EVERYONE, point_id, readers

Verdict: TypeAlias = Condition | bool
"""A condition, or what is known of every row without asking."""


def condition_of(filterable: Mapping[str, FieldType], scope: Scope, selector: Selector | None) -> Condition | None:
    """The rows that the scope may see and the selector names; ``None`` where there can be none."""
    must: list[Condition] = [fields.match("tenant", scope.tenant)]
    if scope.groups is not None:
        must.append(fields.match_any("acl", [EVERYONE, *sorted(readers(scope.groups))]))
    match selector:
        case None:
            pass
        case ByIds(ids=ids):
            must.append(_with_ids([point_id(scope.tenant, id) for id in ids]))
        case ByDocument(document=document, generation=generation):
            must.append(fields.match("document", str(document)))
            if generation is not None:
                must.append(fields.match("generation", generation))
        case _:
            verdict = _Compiler(filterable).compile(selector)
            if verdict is False:
                return None
            if verdict is not True:
                must.append(verdict)
    return {"must": must}


def _with_ids(ids: Sequence[UUID]) -> Condition:
    return {"has_id": [str(id) for id in ids]}


class _Compiler:
    """Two-valued logic, with what holds for all rows or none folded away."""

    def __init__(self, filterable: Mapping[str, FieldType]) -> None:
        self._types = filterable
        self._numbers = fields.numbers(filterable)

    def compile(self, filter: Filter) -> Verdict:
        match filter:
            case Compare(operator="ne", key=key, value=value):
                return _negated(self._equal(key, [value]))
            case Compare(operator="eq", key=key, value=value):
                return self._equal(key, [value])
            case Compare(operator=operator, key=key, value=value):
                return fields.ordered(self._types[key], self._numbers[key], operator, value)
            case In(key=key, values=values, negated=negated):
                found = self._equal(key, values)
                return _negated(found) if negated else found
            case Exists(key=key, value=expected):
                present = fields.present(self._numbers[key])
                return present if expected else _negated(present)
            case Contains(key=key, value=text):
                declared = self._types[key] is FieldType.STRINGS
                return fields.match(fields.path(self._numbers[key]), text) if declared else False
            case And(filters=filters):
                return _all([self.compile(each) for each in filters])
            case Or(filters=filters):
                return _any([self.compile(each) for each in filters])
            case Not(filter=inner):
                return _negated(self.compile(inner))
            case _:
                assert_never(filter)

    def _equal(self, key: str, values: Sequence[Scalar]) -> Verdict:
        return fields.equal(self._types[key], self._numbers[key], values)


def _negated(verdict: Verdict) -> Verdict:
    return not verdict if isinstance(verdict, bool) else {"must_not": [verdict]}


def _all(verdicts: Sequence[Verdict]) -> Verdict:
    if any(each is False for each in verdicts):
        return False
    return _joined("must", verdicts, nothing=True)


def _any(verdicts: Sequence[Verdict]) -> Verdict:
    if any(each is True for each in verdicts):
        return True
    return _joined("should", verdicts, nothing=False)


def _joined(how: str, verdicts: Sequence[Verdict], *, nothing: bool) -> Verdict:
    conditions: list[Any] = [each for each in verdicts if not isinstance(each, bool)]
    return {how: conditions} if conditions else nothing
