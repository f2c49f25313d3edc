"""Vectors in half precision: twice as long, half as large, and refused where half precision cannot hold them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest

from rag.core.errors import InvalidRequestError
from rag.core.records import CollectionSpec, Metric, Quantization, RecordBatch
from stores.pgvector import PgVectorStore, open_store
from stores.testing.records import SCOPE, clustered, record, write


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PgVectorStore]:
    async with open_store({"url": postgres_url, "schema": "half", "timeout": 30.0}) as store:
        await store.drop_collection("c")
        await store.drop_collection("full")
        yield store
        await store.drop_collection("c")
        await store.drop_collection("full")


def _spec(dimension: int, *, metric: Metric = Metric.COSINE) -> CollectionSpec:
    return CollectionSpec(dimension=dimension, metric=metric, quantization=Quantization.HALF)


async def test_a_vector_of_4000_dimensions_is_kept_and_found(store: PgVectorStore) -> None:
    vectors = clustered(3, dimension=4000)
    await store.create_collection("c", _spec(4000))
    await write(store, "c", [record(i, vector=vectors[i]) for i in range(3)])

    (hit,) = await store.search("c", SCOPE, vectors[1], limit=1)
    (kept,) = await store.get("c", SCOPE, [hit.id])

    assert hit.index == 1
    assert kept.vector.dtype == np.float32
    assert np.allclose(kept.vector, vectors[1], atol=1e-2)


@pytest.mark.parametrize(("dimension", "quantization"), [(4001, Quantization.HALF), (2001, Quantization.NONE)])
async def test_a_longer_vector_is_refused(store: PgVectorStore, dimension: int, quantization: Quantization) -> None:
    with pytest.raises(InvalidRequestError, match=str(dimension - 1)):
        await store.create_collection("c", CollectionSpec(dimension=dimension, quantization=quantization))


@pytest.mark.parametrize("metric", Metric)
async def test_scores_are_those_of_single_precision_within_half_a_percent(store: PgVectorStore, metric: Metric) -> None:
    vectors = clustered(300, dimension=64)
    rows = [record(i, vector=vectors[i]) for i in range(300)]
    await store.create_collection("c", _spec(64, metric=metric))
    await store.create_collection("full", CollectionSpec(dimension=64, metric=metric))
    await write(store, "c", rows)
    await write(store, "full", rows)

    for query in vectors[:10]:
        exact = {hit.id: hit.score for hit in await store.search("full", SCOPE, query, limit=300)}
        found = await store.search("c", SCOPE, query, limit=10)
        assert len(found) == 10
        assert [hit.score for hit in found] == pytest.approx([exact[hit.id] for hit in found], rel=5e-3, abs=2e-2)


@pytest.mark.parametrize("value", [1e5, 1e-9])
async def test_what_half_precision_cannot_hold_is_refused_in_records_and_queries(
    store: PgVectorStore, value: float
) -> None:
    await store.create_collection("c", _spec(4))
    beyond = np.full(4, value, dtype=np.float32)

    with pytest.raises(InvalidRequestError, match="half precision"):
        await store.upsert("c", SCOPE, RecordBatch.of([record(0, vector=beyond)]))
    with pytest.raises(InvalidRequestError, match="half precision"):
        await store.search("c", SCOPE, beyond, limit=1)
    assert await store.count("c", SCOPE) == 0
