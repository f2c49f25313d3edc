from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from rag.core.errors import FilterError
from rag.core.filters import And, Compare, Contains, Exists, Filter, In, Not, Or
from rag.core.records import ByDocument, ByIds
from rag.core.types import FieldType, Scope
from stores.milvus.columns import columns_of
from stores.milvus.engine import Engine
from stores.milvus.filters import Where, where

OLD, NEW = Engine(version=(2, 3, 5)), Engine(version=(2, 5, 0))
FIELDS = {kind.value: kind for kind in FieldType}
COLUMNS = columns_of(FIELDS)
SERVICE = Scope(tenant="acme", groups=None)
TENANT = 'tenant == "acme"'
NEVER = Compare(operator="eq", key="string", value=1)


def compiled(filter: Filter) -> str | None:
    found = where(OLD, COLUMNS, SERVICE, filter)
    return found.text.removeprefix(f"({TENANT} and ").removesuffix(")") if found else None


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (Compare(operator="eq", key="string", value='a"'), 'f4 == "=a\\u0022"'),
        (Compare(operator="ne", key="string", value="a"), 'f4 != "=a"'),
        (Compare(operator="lt", key="string", value="a"), '(f4 != "" and f4 < "=a")'),
        (Not(filter=Compare(operator="lt", key="string", value="a")), '(f4 == "" or f4 >= "=a")'),
        (Compare(operator="gt", key="boolean", value=False), "f0 in [1]"),
        (Compare(operator="ne", key="boolean", value=True), "f0 not in [1]"),
        (Compare(operator="gte", key="integer", value=3), "(hf3 == true and f3 >= 3)"),
        (Compare(operator="ne", key="integer", value=3), "(hf3 == false or f3 != 3)"),
        (Compare(operator="lt", key="integer", value=2.5), "(hf3 == true and f3 <= 2)"),
        (Compare(operator="eq", key="integer", value=-(2**63)), "(hf3 == true and f3 < -9223372036854775807)"),
        (Compare(operator="gt", key="integer", value=-(2**70)), "hf3 == true"),
        (Compare(operator="lt", key="float", value=2**2000), "hf2 == true"),
        (Compare(operator="eq", key="datetime", value=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)), "f1 == 1000000"),
        (Exists(key="string", value=False), 'f4 == ""'),
        (Exists(key="strings"), 'array_contains(f5, "=")'),
        (Contains(key="strings", value="a"), 'array_contains(f5, "=a")'),
        (Not(filter=Contains(key="strings", value="a")), '(not array_contains(f5, "=a"))'),
        (In(key="string", values=("a", 1)), 'f4 in ["=a"]'),
        (In(key="string", values=("a",), negated=True), 'f4 not in ["=a"]'),
        (Or(filters=(NEVER, Exists(key="float"))), "hf2 == true"),
    ],
)
def test_a_condition_says_what_becomes_of_a_missing_value(filter: Filter, expected: str) -> None:
    assert compiled(filter) == expected


@pytest.mark.parametrize("filter", [And(filters=()), Not(filter=NEVER), In(key="string", values=(), negated=True)])
def test_what_holds_for_every_record_is_folded_into_the_scope(filter: Filter) -> None:
    assert where(OLD, COLUMNS, SERVICE, filter) == Where(text=TENANT)


@pytest.mark.parametrize("filter", [Or(filters=()), NEVER, And(filters=(Exists(key="float"), NEVER)), ByIds(ids=())])
def test_what_holds_for_no_record_asks_the_server_nothing(filter: Filter) -> None:
    assert where(OLD, COLUMNS, SERVICE, filter) is None


def test_the_scope_is_a_part_of_every_condition() -> None:
    document = ByDocument(document=UUID(int=1), generation=3)

    anyone = where(OLD, COLUMNS, Scope(tenant='a"c'), document)
    staff = where(OLD, COLUMNS, Scope(tenant="acme", groups=frozenset({"staff"})), None)

    assert anyone == Where(
        text=f'(tenant == "a\\u0022c" and everyone == true and document == "{1:032x}" and generation == 3)'
    )
    assert staff == Where(text=f'({TENANT} and (everyone == true or array_contains_any(acl, ["staff"])))')


def test_values_travel_beside_the_condition_where_the_server_takes_them() -> None:
    found = where(NEW, COLUMNS, SERVICE, In(key="string", values=('" or 1',)))

    assert found == Where(text="(tenant == {x0} and f4 in {x1})", parameters={"x0": "acme", "x1": ['=" or 1']})


def test_an_undeclared_field_is_refused() -> None:
    with pytest.raises(FilterError):
        where(OLD, COLUMNS, SERVICE, Exists(key="tenant"))
