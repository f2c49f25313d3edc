from __future__ import annotations

from typing import Any

import pytest

from rag.core.errors import FilterError
from rag.core.filters import And, Compare, Contains, Exists, Filter, In, Not, Or
from rag.core.types import FieldType
from stores.pgvector.filters import Compiler, columns, string_keys

FIELDS = {"a": FieldType.INTEGER, "b": FieldType.STRING, "c": FieldType.STRINGS, 'd"; drop': FieldType.BOOLEAN}


def _compile(filter: Filter) -> tuple[str, dict[str, Any]]:
    compiler = Compiler(columns=columns(FIELDS))
    return compiler.compile(filter).as_string(None), compiler.parameters


@pytest.mark.parametrize(
    ("filter", "sql", "parameters"),
    [
        (Compare(operator="gt", key="a", value=3), '"f0" > %(x0)s::int8', {"x0": 3}),
        (Compare(operator="gt", key="a", value=True), "false", {}),
        (Compare(operator="ne", key="a", value="text"), "true", {}),
        (Compare(operator="ne", key="a", value=3), '("f0" is null or not "f0" = %(x0)s::int8)', {"x0": 3}),
        (Compare(operator="lt", key="a", value=2**70), '"f0" is not null', {}),
        (
            Compare(operator="gt", key="b", value="x"),
            '(left("f1", 256) >= %(x1)s::text and "f1" > %(x0)s::text)',
            {"x0": "x", "x1": "x"},
        ),
        (In(key="a", values=(1, "x", 2.0)), '"f0" = any(%(x0)s::int8[])', {"x0": [1, 2]}),
        (In(key="a", values=("x",)), "false", {}),
        (In(key="a", values=(), negated=True), "true", {}),
        (Exists(key="a"), '"f0" is not null', {}),
        (Not(filter=Exists(key="a")), '"f0" is null', {}),
        (
            Contains(key="c", value="x"),
            '("f2_keys" @> %(x0)s::int4[] and "f2" @> %(x1)s::text[])',
            {"x0": string_keys(["x"]), "x1": ["x"]},
        ),
        (Contains(key="b", value="x"), "false", {}),
        (And(filters=()), "true", {}),
        (Or(filters=()), "false", {}),
        (
            Not(filter=And(filters=(Exists(key="a"), Exists(key="b")))),
            '("f0" is null or "f1" is null)',
            {},
        ),
        (Compare(operator="eq", key='d"; drop', value=True), '"f3" = %(x0)s::bool', {"x0": True}),
    ],
)
def test_a_filter_becomes_a_condition_without_any_text_of_the_caller(
    filter: Filter, sql: str, parameters: dict[str, Any]
) -> None:
    assert _compile(filter) == (sql, parameters)


def test_an_undeclared_key_is_refused() -> None:
    with pytest.raises(FilterError, match="tenant"):
        _compile(Exists(key="tenant"))
