"""Recall of the vector index on real embeddings with exact neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import numpy as np
import psycopg
import pytest

from rag.core.records import CollectionSpec, Metric, RecordBatch
from rag.core.types import Quality
from stores.pgvector import open_store
from stores.testing.records import SCOPE

FILES = {Metric.COSINE: "cosine", Metric.DOT: "ip", Metric.L2: "l2"}


def _batch(vectors: np.ndarray, first: int) -> RecordBatch:
    count = len(vectors)
    return RecordBatch(
        tenant=SCOPE.tenant,
        ids=[UUID(int=first + i) for i in range(count)],
        vectors=vectors,
        terms=[{}] * count,
        texts=[""] * count,
        starts=[0] * count,
        ends=[0] * count,
        documents=[UUID(int=first)] * count,
        generations=[1] * count,
        acls=[()] * count,
        indexes=list(range(count)),
        pages=[None] * count,
        headings=[()] * count,
        qualities=[Quality.FULL] * count,
        metadata=[{}] * count,
    )


@contextmanager
def _index_built_last(url: str) -> Iterator[None]:
    """The same graph in a fifth of the time."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "select indexname, indexdef from pg_indexes where schemaname = 'recall' and indexdef like '%hnsw%'"
        )
        ((name, definition),) = found.fetchall()
        connection.execute(f"drop index recall.{name}".encode())
        yield
        connection.execute(definition.encode())
        connection.execute("analyze recall.r_c")


@pytest.mark.slow
@pytest.mark.parametrize("metric", Metric)
async def test_the_index_finds_95_of_100_true_neighbours_at_its_defaults(
    postgres_url: str, shared: Path, metric: Metric
) -> None:
    folder = shared / "data" / "vectors" / "wordllama_npl_128"
    base, queries = np.load(folder / "base.npy"), np.load(folder / "queries.npy")[::6]
    truth = np.load(folder / f"gt_{FILES[metric]}_scores.npy")[::6, 9]
    worst = -np.sqrt(truth) if metric is Metric.L2 else truth
    recalled = 0

    async with open_store({"url": postgres_url, "schema": "recall", "timeout": 60.0}) as store:
        await store.drop_collection("c")
        await store.create_collection("c", CollectionSpec(dimension=base.shape[1], metric=metric))
        with _index_built_last(postgres_url):
            for first in range(0, len(base), 2000):
                await store.upsert("c", SCOPE, _batch(base[first : first + 2000], first))
        for query, least in zip(queries, worst, strict=True):
            hits = await store.search("c", SCOPE, query, limit=10)
            recalled += sum(hit.score >= least - 1e-4 * abs(least) for hit in hits)
        await store.drop_collection("c")

    assert recalled >= 0.95 * 10 * len(queries)
