"""The SQL of each call, all of it one statement; values are parameters, names are checked or generated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rag.core.ports import Selector
from rag.core.records import ByDocument, ByIds
from rag.core.types import Scope
from stores.pgvector.filters import Compiler
from stores.pgvector.lexical import LexicalQuery
from stores.pgvector.tables import HIT_COLUMNS, PARTS, RECORD_COLUMNS, Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL with named parameters."""

    sql: str
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows a call may touch: the scope's own, and of them those that the selector names.

    ``scope`` is a condition on either table, ``selection`` one on the table of records.
    """

    tables: Tables
    tenant: str
    scope: str
    selection: str
    parameters: dict[str, Any]

    @property
    def condition(self) -> str:
        """Both conditions, on the table of records."""
        return f"{self.scope} and {self.selection}" if self.selection else self.scope

    @property
    def terms_condition(self) -> str:
        """Both conditions, on the table of terms named ``t``."""
        if not self.selection:
            return self.scope
        return (
            f"{self.scope} and exists (select from {self.tables.records} r "
            f"where r.tenant = t.tenant and r.id = t.id and {self.selection})"
        )


def rows_of(tables: Tables, scope: Scope, selector: Selector | None = None) -> Rows:
    """The rows of the scope that the selector names; raises ``FilterError``."""
    parameters: dict[str, Any] = {"tenant": scope.tenant}
    condition = "tenant = %(tenant)s"
    if scope.groups is not None:
        parameters["groups"] = sorted(scope.groups)
        condition += " and (acl = '{}' or acl && %(groups)s::text[])"
    selection, selected = _selection(tables, selector)
    return Rows(
        tables=tables, tenant=scope.tenant, scope=condition, selection=selection, parameters=parameters | selected
    )


def nearest(rows: Rows, vector: Any, *, limit: int) -> Statement:
    """Rows of ``HIT_COLUMNS`` and distance by the vector index, which may find fewer than there are.

    The exact part is a statement of its own, :func:`scanned`: planning it along costs every search more than a
    second statement costs the few that need one.
    """
    return _by_distance(rows, vector, limit=limit, order="distance")


def scanned(rows: Rows, vector: Any, *, limit: int) -> Statement:
    """Rows of ``HIT_COLUMNS`` and distance, all rows compared. Adding zero keeps the index out of it."""
    return _by_distance(rows, vector, limit=limit, order=f"({rows.tables.distance}) + 0, id")


def _by_distance(rows: Rows, vector: Any, *, limit: int, order: str) -> Statement:
    return Statement(
        sql=f"select {', '.join(HIT_COLUMNS)}, {rows.tables.distance} as distance from {rows.tables.records} "
        f"where {rows.condition} order by {order} limit %(limit)s",
        parameters=rows.parameters | {"vector": vector, "limit": limit},
    )


def lexical(rows: Rows, query: LexicalQuery, *, limit: int) -> Statement:
    """Rows of ``HIT_COLUMNS`` and score."""
    parameters = rows.parameters | query.parameters | {"limit": limit}
    return Statement(
        sql=f"with {_lexical_legs(rows, query)} select {_qualified(HIT_COLUMNS)}, lexical.score "
        f"from lexical join {rows.tables.records} r on r.tenant = %(tenant)s and r.id = lexical.id",
        parameters=parameters,
    )


def hybrid(rows: Rows, vector: Any, query: LexicalQuery, *, limit: int, exact: bool) -> Statement:
    """Rows of ``HIT_COLUMNS``, distance, how many the vector index found, and score; null in the leg that lacks it."""
    parameters = rows.parameters | query.parameters | {"vector": vector, "limit": limit}
    return Statement(
        sql=f"with {_dense_legs(rows, exact=exact)}, {_lexical_legs(rows, query)}, "
        "both_legs as (select id, distance, found, score from dense full join lexical using (id)) "
        f"select {_qualified(HIT_COLUMNS)}, both_legs.distance, both_legs.found, both_legs.score "
        f"from both_legs join {rows.tables.records} r on r.tenant = %(tenant)s and r.id = both_legs.id",
        parameters=parameters,
    )


def records(rows: Rows, *, after: Any = None, limit: int | None = None) -> Statement:
    """Rows of ``RECORD_COLUMNS``, term ids and weights, by id, from behind ``after`` on."""
    extra = {"after": after, "limit": limit}
    columns = f"{_qualified(RECORD_COLUMNS)}, t.terms, " + ", ".join(f"t.{part}" for part in PARTS)
    beyond = "" if after is None else " and id > %(after)s"
    chosen = f"select * from {rows.tables.records} where {rows.condition}{beyond} order by id limit %(limit)s"
    return Statement(
        sql=f"select {columns} from ({chosen}) r join {rows.tables.terms} t on t.tenant = r.tenant and t.id = r.id "
        "order by r.id",
        parameters=rows.parameters | extra,
    )


def count(rows: Rows) -> Statement:
    """One row: how many."""
    return Statement(
        sql=f"select count(*) from {rows.tables.records} where {rows.condition}", parameters=rows.parameters
    )


def count_up_to(rows: Rows, most: int) -> Statement:
    """One row: how many, without looking at more than ``most``."""
    return Statement(
        sql=f"select count(*) from (select from {rows.tables.records} where {rows.condition} limit %(most)s) passing",
        parameters=rows.parameters | {"most": most},
    )


def delete(rows: Rows) -> Statement:
    """Delete the records and, by cascade, their terms."""
    return Statement(sql=f"delete from {rows.tables.records} where {rows.condition}", parameters=rows.parameters)


def _selection(tables: Tables, selector: Selector | None) -> tuple[str, dict[str, Any]]:
    match selector:
        case None:
            return "", {}
        case ByIds(ids=ids):
            return "id = any(%(ids)s::uuid[])", {"ids": list(ids)}
        case ByDocument(document=document, generation=None):
            return "document = %(document)s", {"document": document}
        case ByDocument(document=document, generation=generation):
            return (
                "document = %(document)s and generation = %(generation)s",
                {"document": document, "generation": generation},
            )
        case _:
            compiler = Compiler(columns=tables.columns)
            return compiler.compile(selector).as_string(None), compiler.parameters


def _dense_legs(rows: Rows, *, exact: bool) -> str:
    """Ids and distances of the nearest by the vector index and, where that is left short, by an exact scan instead.

    The second part runs only when the first one found too few. Adding zero keeps the index out of it.
    """
    distance = rows.tables.distance
    source = f"select id, {distance} as distance from {rows.tables.records} where {rows.condition}"
    scan = f"order by ({distance}) + 0, id limit %(limit)s"
    if exact:
        return f"dense as (select *, null::int8 as found from ({source} {scan}) scanned)"
    found = "(select count(*) from nearest)"
    return (
        f"nearest as materialized ({source} order by {distance} limit %(limit)s), "
        f"dense as (select *, {found} as found from nearest where {found} >= %(limit)s "
        f"union all select *, {found} from ({source} and {found} < %(limit)s {scan}) scanned)"
    )


def _lexical_legs(rows: Rows, query: LexicalQuery) -> str:
    """The best by the heavy terms and, where a record without any could still be among them, by the others.

    Single precision, so that equal records stay equal in whatever order their terms were added.
    """
    products = " + ".join(f"(t.{part} <#> %({part})s)" for part in query.weights) or "0"
    source = f"select t.id, (0 - ({products}))::real as score from {rows.tables.terms} t where"
    best = "order by score desc, id limit %(limit)s"
    legs = f"first_terms as materialized ({source} t.terms && %(first)s::int4[] and {rows.terms_condition} {best})"
    if not query.rest:
        return f"{legs}, lexical as (select * from first_terms)"
    bound = (
        f"%(rest_weight)s::float8 * 1.00001 * coalesce((select greatest_weight from {rows.tables.registry} "
        f"where name = '{rows.tables.collection}'), 'infinity'::real)"
    )
    open_places = f"(select count(*) < %(limit)s or min(score) <= {bound} from first_terms)"
    return (
        f"{legs}, rest_terms as ({source} t.terms && %(rest)s::int4[] and not t.terms && %(first)s::int4[] "
        f"and {rows.terms_condition} and {open_places} {best}), "
        f"lexical as (select * from first_terms union all select * from rest_terms {best})"
    )


def _qualified(columns: tuple[str, ...]) -> str:
    return ", ".join(f"r.{column}" for column in columns)
