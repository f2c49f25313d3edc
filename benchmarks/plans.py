"""What PostgreSQL reads for a lexical search, as its plans say it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb

from benchmarks.engines import Opened
from benchmarks.rows import SCOPE
from benchmarks.texts import Lexicon
from rag.core.types import Terms
from stores.pgvector import statements
from stores.pgvector.database import SESSION, SET_SESSION
from stores.pgvector.lexical import lexical_query, signed
from stores.pgvector.tables import Tables
from stores.pgvector.wall import ROLE, TENANT

LIMIT = 10
_VECTOR = re.compile(r"'\{[^']{20,}'::sparsevec")
_SKIPPED = re.compile(r"Scan on (?:anchorage_vectors\.)?t_.*never executed")
_SCAN = re.compile(r"Seq Scan on (?:anchorage_vectors\.)?[rt]_(?!.*never executed)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of one query, line by line; ``scans`` says how often it reads a whole table of rows.

    ``share`` is how many rows, as a share of all, hold the terms whose postings were read: an upper bound.
    """

    lines: Sequence[str]
    scans: int
    share: float


async def lexical_plans(opened: Opened, collection: str, queries: Sequence[Terms], lexicon: Lexicon) -> list[Plan]:
    """Explain the store's own statement for each query, as the store's connections run it: under the tenant's role."""
    spec = await opened.store.describe_collection(collection)
    tables = Tables(schema="anchorage_vectors", collection=collection, spec=spec)
    with psycopg.connect(opened.options["url"], autocommit=True) as connection:
        register_vector(connection)
        connection.execute(SET_SESSION, [Jsonb({**SESSION, TENANT: SCOPE.tenant})])
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [ROLE]).rowcount:
            connection.execute(f"SET ROLE {ROLE}".encode())
        return [_plan(connection, tables, terms, lexicon) for terms in queries]


def scans(plan: Sequence[str]) -> int:
    """How many of the plan's lines read a whole table of records or of postings."""
    return sum(_SCAN.search(line) is not None for line in plan)


def _plan(connection: psycopg.Connection, tables: Tables, terms: Terms, lexicon: Lexicon) -> Plan:
    lines = _explained(connection, tables, terms)
    skipped = set(lexical_query(terms).rest) if any(_SKIPPED.search(line) for line in lines) else set()
    holding = sum(lexicon.holding[term] for term in terms if signed([term])[0] not in skipped)
    return Plan(lines=lines, scans=scans(lines), share=min(1.0, holding / len(lexicon.counts)))


def _explained(connection: psycopg.Connection, tables: Tables, terms: Terms) -> list[str]:
    rows = statements.rows_of(tables, SCOPE)
    statement = statements.lexical(rows, lexical_query(terms), limit=LIMIT)
    found = connection.execute(
        b"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF, SUMMARY OFF) " + statement.sql.encode(),
        statement.parameters,
    )
    return [_VECTOR.sub("'…'::sparsevec", line) for (line,) in found.fetchall()]
