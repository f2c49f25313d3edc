"""Lexical statistics of a physical collection: exact under every publish, replace and delete.

Whoever moves them holds the lock of the collection's row, so counts are never raced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from rag.catalog.database import Connection
from rag.core.catalog import Publication

_INSERT = (
    "INSERT INTO generation_terms (generation, document, chunks, total_terms, terms, counts) "
    "VALUES (%s, %s, %s, %s, %s::bigint[], %s::bigint[])"
)
_MOVE_TERMS = """
INSERT INTO term_counts AS t (physical, term, chunks)
SELECT %(physical)s, term, moved FROM (
    SELECT u.term, sum(CASE WHEN g.generation = ANY(%(added)s::bigint[]) THEN u.n ELSE -u.n END) AS moved
    FROM generation_terms g, unnest(g.terms, g.counts) AS u (term, n)
    WHERE g.generation = ANY(%(added)s::bigint[] || %(removed)s::bigint[]) GROUP BY u.term
) net WHERE moved <> 0 ORDER BY term
ON CONFLICT (physical, term) DO UPDATE SET chunks = t.chunks + excluded.chunks
"""
_DROP_EMPTY = """
DELETE FROM term_counts t USING (
    SELECT DISTINCT unnest(g.terms) AS term FROM generation_terms g WHERE g.generation = ANY(%(removed)s::bigint[])
) gone WHERE t.physical = %(physical)s AND t.term = gone.term AND t.chunks <= 0
"""
_MOVE_TOTALS = """
UPDATE physical_collections p SET documents = p.documents + m.documents, chunks = p.chunks + m.chunks,
    total_terms = p.total_terms + m.total_terms
FROM (
    SELECT sum(s.sign) AS documents, sum(s.sign * s.chunks) AS chunks, sum(s.sign * s.total_terms) AS total_terms FROM (
        SELECT CASE WHEN generation = ANY(%(added)s::bigint[]) THEN 1 ELSE -1 END AS sign, chunks, total_terms
        FROM generation_terms WHERE generation = ANY(%(added)s::bigint[] || %(removed)s::bigint[])
    ) s
) m WHERE p.id = %(physical)s
"""


async def add_generations(connection: Connection, publications: Sequence[Publication]) -> None:
    """Keep what each generation counts, so that taking it away later is exact."""
    # A thread: a thousand chunks make a hundred thousand numbers to write out.
    arrays = await asyncio.to_thread(lambda: [_arrays(each) for each in publications])
    async with connection.cursor() as cursor:
        await cursor.executemany(
            _INSERT,
            [
                (each.attempt.generation, each.attempt.document, each.chunks, each.total_terms, terms, counts)
                for each, (terms, counts) in zip(publications, arrays, strict=True)
            ],
        )


async def move_statistics(
    connection: Connection, physical: int, *, added: Sequence[int], removed: Sequence[int]
) -> None:
    """Count ``added`` generations in and ``removed`` ones out, then forget the removed."""
    arguments = {"physical": physical, "added": list(added), "removed": list(removed)}
    await connection.execute(_MOVE_TERMS, arguments)
    await connection.execute(_MOVE_TOTALS, arguments)
    if removed:
        await connection.execute(_DROP_EMPTY, arguments)
        await connection.execute("DELETE FROM generation_terms WHERE generation = ANY(%s)", (list(removed),))


def _arrays(publication: Publication) -> tuple[str, str]:
    """Terms and counts as array literals: text crosses to the server faster than a list of numbers."""
    terms = sorted(publication.document_counts.items())
    return _literal(term for term, _ in terms), _literal(count for _, count in terms)


def _literal(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
