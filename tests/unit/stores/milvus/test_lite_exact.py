"""The rows that pass a condition, compared inside Milvus Lite."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("milvus_lite", reason="needs milvus-lite")

from milvus_lite.index.brute_force import BruteForceIndex
from milvus_lite.index.faiss_hnsw import FaissHnswIndex

from stores.milvus import lite_exact

LIMIT = 10


@pytest.mark.parametrize("metric", ["COSINE", "IP", "L2"])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.9])
def test_where_a_part_of_the_rows_passes_the_answer_is_exact(metric: str, share: float) -> None:
    random = np.random.default_rng(3)
    vectors = random.standard_normal((2000, 16)).astype(np.float32) * random.uniform(0.5, 5.0, (2000, 1))
    vectors = vectors.astype(np.float32)
    queries = random.standard_normal((4, 16)).astype(np.float32)
    mask = random.random(2000) < share
    graph = FaissHnswIndex.build(vectors, metric, {"M": 4, "efConstruction": 8})

    ids, distances = lite_exact.search(graph, queries, LIMIT, mask, {"ef": 10})

    wanted, expected = BruteForceIndex(vectors, metric).search(queries, LIMIT, mask)
    assert np.array_equal(ids, wanted)
    assert np.allclose(distances, expected, atol=1e-4)


def test_all_rows_and_none_are_left_to_the_graph() -> None:
    vectors = np.eye(8, dtype=np.float32)
    graph = FaissHnswIndex.build(vectors, "L2")

    whole, _ = lite_exact.search(graph, vectors[:1], 3, None)
    empty, _ = lite_exact.search(graph, vectors[:1], 3, np.zeros(8, dtype=bool))

    assert whole[0, 0] == 0
    assert (empty == -1).all()
