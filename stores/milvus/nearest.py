"""Which way the nearest rows are looked for: by the graph where it finds them, else by comparing all that pass.

HNSW of Milvus walks through rows that pass: where a part of the rows does not, the graph falls to pieces, however
many candidates are kept. Of 11,426 real embeddings by dot product, half of them passing, it found 0.943 of the ten
nearest at 1,600 candidates and at 12,000; a tenth passing, 0.64. But where at least half of the rows that pass are
asked for, a server compares them all (knowhere's ``kHnswSearchBFTopkThreshold``), so that is asked for: primary keys
alone, of which the best are taken. Rows that are not sealed yet have a coarse index instead, of which a search goes
through an eighth (0.59 of the ten nearest by dot product): there all distances are let pass, which makes a server go
through the whole. Milvus Lite's host compares by itself, see ``stores.milvus.lite_exact``.
"""

from __future__ import annotations

from rag.core.records import Hit, Quantization, SearchParams
from rag.core.types import Vectors
from stores.milvus import ranking
from stores.milvus.calls import MAX_TOP, Calls
from stores.milvus.crowds import Crowd, Crowds
from stores.milvus.filters import Where
from stores.milvus.schema import Table

CANDIDATES_PER_EF = 4
"""Milvus keeps this many times ``ef_search`` candidates. On real embeddings (11,426 × 128, cosine, m 16) recall@10 of
one build of its graph was 0.921 at 200 candidates and 0.972 at 400."""
CANDIDATES_PER_EF_FILTERED = 8
"""The same where a part of the rows passes."""
READ_ROWS = 2_000
"""Where an engine cannot be brought to compare, and no more rows pass, they are read and compared here."""
COMPARED_ROWS = 30_000
"""Where no more rows pass, a server is brought to compare them all: half of them fit into an answer."""
WHOLE = 0.95
"""The share of rows passing from which the graph is as good as whole."""
UNSEALED_ROWS = 2_000
"""So few unsealed rows have no coarse index; a server compares them."""
WALKED_ROWS = 50_000
"""Up to so many rows in all, letting all distances pass takes less than a tenth of a second."""
_UNSEALED_SHARE = 0.1
_MAX_EF = 32_768


def nearest(
    calls: Calls,
    table: Table,
    where: Where,
    queries: Vectors,
    *,
    limit: int,
    params: SearchParams,
    filtered: bool,
    crowds: Crowds,
) -> list[list[Hit]]:
    """For each query the nearest rows that pass, best first."""
    if params.exact or limit > MAX_TOP:
        return compare_here(calls, table, where, queries, limit=limit)
    ef = min(_MAX_EF, params.ef_search * (CANDIDATES_PER_EF_FILTERED if filtered else CANDIDATES_PER_EF))
    if table.engine.lite:
        if _is_few_on_lite(calls, table, where, filtered=filtered, crowds=crowds):
            return compare_here(calls, table, where, queries, limit=limit)
        return ranking.dense(calls, table, where, queries, limit=limit, ef=ef)
    crowd = crowds.of(calls, table.name, where)
    if crowd.unsealed > UNSEALED_ROWS and crowd.passing <= READ_ROWS:
        return compare_here(calls, table, where, queries, limit=limit)
    depth = least_depth(crowd, limit=limit)
    return ranking.dense(calls, table, where, queries, limit=limit, ef=ef, depth=depth, in_memory_too=_is_coarse(crowd))


def compare_here(calls: Calls, table: Table, where: Where, queries: Vectors, *, limit: int) -> list[list[Hit]]:
    """The exact answer to each query, from the vectors of all rows that pass, which are read once."""
    scorers = [ranking.dense_scorer(table.spec.metric, query) for query in queries]
    return ranking.scan(calls, table, where, scorers, "vector", limit=limit)


def least_depth(crowd: Crowd, *, limit: int) -> int:
    """How many rows to ask a server for, so that it compares all that pass; 0 where the graph is to be walked.

    A count may be some seconds old, hence a few more than half.
    """
    if crowd.passing >= WHOLE * crowd.total or crowd.passing > COMPARED_ROWS:
        return 0
    return min(MAX_TOP, limit + 64 + crowd.passing * 52 // 100)


def _is_coarse(crowd: Crowd) -> bool:
    """Whether enough rows are in memory only to look at these apart."""
    if crowd.unsealed <= UNSEALED_ROWS:
        return False
    return crowd.total <= WALKED_ROWS or crowd.unsealed >= _UNSEALED_SHARE * crowd.total


def _is_few_on_lite(calls: Calls, table: Table, where: Where, *, filtered: bool, crowds: Crowds) -> bool:
    """Whether few rows pass of those whose vectors the host of Lite has in 8 bits only."""
    scaled = table.spec.quantization is Quantization.INT8
    return filtered and scaled and crowds.passing(calls, table.name, where) <= READ_ROWS
