"""A plan's table scans are told from what it reads by an index, and from what it never ran."""

from __future__ import annotations

import pytest

from benchmarks.plans import scans


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("->  Seq Scan on t_docs t (actual rows=1948.00 loops=1)", 1),
        ("->  Parallel Seq Scan on anchorage_vectors.r_docs r (actual rows=9.00 loops=1)", 1),
        ("->  Seq Scan on t_docs t (never executed)", 0),
        ("->  Seq Scan on collections (actual rows=1.00 loops=1)", 0),
        ("->  Bitmap Heap Scan on t_docs t (actual rows=3.00 loops=1)", 0),
        ("->  Index Scan using r_docs_pkey on r_docs r (actual rows=1.00 loops=10)", 0),
    ],
)
def test_only_a_scan_that_ran_over_records_or_postings_counts(line: str, count: int) -> None:
    assert scans([line]) == count
