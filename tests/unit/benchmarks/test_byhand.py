"""The engines by hand write and find what the benchmark of adapters asks of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.adapters import BELOW, DIMENSION, LIMIT, SPEC, Load, _given
from benchmarks.byhand.client import COLLECTION, Client
from benchmarks.vectors import PARTS

SIZE = Load(loads=2, batch=200, searches=1, queries=3)


def _check(client: Client) -> None:
    rows, queries, _ = _given(SIZE, 7)
    passing = sum(part < BELOW for part in range(len(rows)))
    assert LIMIT < passing < len(rows) < PARTS

    for batch in [*rows.batches(SIZE.batch), rows.batch(0, 10)]:
        client.load(batch)
    client.settle()

    for workers in (1, 2):
        assert client.search_all(queries, limit=LIMIT, below=None, workers=workers) == [LIMIT] * len(queries)
    assert client.search(queries[0], limit=len(rows) + 1, below=None) == len(rows)
    assert client.search(queries[0], limit=len(rows), below=BELOW) == passing


@pytest.mark.filterwarnings("ignore:Local mode performs exact")
def test_qdrants_client_by_hand() -> None:
    pytest.importorskip("qdrant_client", reason="needs the package qdrant-client")
    from qdrant_client import QdrantClient, models

    from benchmarks.byhand.qdrant import QdrantByHand

    client = QdrantClient(":memory:")
    client.create_collection(
        COLLECTION,
        vectors_config={"dense": models.VectorParams(size=DIMENSION, distance=models.Distance.DOT)},
        sparse_vectors_config={"terms": models.SparseVectorParams()},
    )

    _check(QdrantByHand(client))


def test_qdrants_embedded_engine_by_hand(tmp_path: Path) -> None:
    pytest.importorskip("qdrant_edge", reason="needs the package qdrant-edge-py")
    from benchmarks.byhand.edge import open_byhand

    with open_byhand(tmp_path / "shard", SPEC) as client:
        _check(client)


@pytest.mark.slow
def test_milvus_lite_by_hand(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason="needs the package milvus-lite")
    from benchmarks.byhand.lite import open_byhand

    with open_byhand(tmp_path / "lite.db", SPEC) as client:
        _check(client)
