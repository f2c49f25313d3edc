"""Milvus Lite, searched by sets of keys, finds what its own row by row search finds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("milvus_lite", reason="needs milvus-lite")

from milvus_lite.db import MilvusLite
from milvus_lite.engine import collection as engine
from milvus_lite.schema.types import CollectionSchema, DataType, FieldSchema

from stores.milvus import lite_search

FIELDS = [
    FieldSchema("pk", DataType.VARCHAR, is_primary=True, max_length=64),
    FieldSchema("vector", DataType.FLOAT_VECTOR, dim=4),
    FieldSchema("terms", DataType.SPARSE_FLOAT_VECTOR),
    FieldSchema("year", DataType.INT64),
]
KEYS = [f"k{number}" for number in range(40)]


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Any]:
    database = MilvusLite(str(tmp_path))
    try:
        made = database.create_collection("c", CollectionSchema(FIELDS))
        made.create_index("vector", {"index_type": "HNSW", "metric_type": "IP", "params": {"M": 8}})
        made.create_index("terms", {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP", "params": {}})
        made.load()
        yield made
    finally:
        database.close()


def change(collection: Any, chance: random.Random) -> None:
    """Write, write again, delete, seal: whatever leaves several versions of a key in several places."""
    some = chance.sample(KEYS, chance.randint(1, 12))
    match chance.choice(["write", "write", "write", "delete", "seal"]):
        case "write":
            collection.upsert([row(key, chance) for key in some])
        case "delete":
            collection.delete(some)
        case "seal":
            collection.flush()


def row(key: str, chance: random.Random) -> dict[str, Any]:
    terms = {term: chance.uniform(0.1, 2.0) for term in chance.sample(range(6), 3)}
    return {
        "pk": key, "vector": [chance.gauss(0, 1) for _ in range(4)], "terms": terms, "year": chance.randint(0, 3),
    }  # fmt: skip


def answers(collection: Any, chance: random.Random) -> list[Any]:
    vectors = [[chance.gauss(0, 1) for _ in range(4)] for _ in range(2)]
    weights = [{0: 1.0, 3: 0.5}, {5: 2.0}]
    return [
        collection.search(queries, top_k=top, metric_type="IP", anns_field=field, expr=expr, output_fields=["year"])
        for field, queries in (("vector", vectors), ("terms", weights))
        for top in (3, 50)
        for expr in (None, "year < 2", 'pk == "k1"')
    ]


@pytest.mark.parametrize("seed", range(4))
def test_after_any_writes_both_ways_find_the_same_rows_in_the_same_order(
    collection: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    for number in range(25):
        change(collection, chance)
        if number % 3:
            continue
        collection._wait_for_bg()
        wanted = answers(collection, random.Random(number))
        with monkeypatch.context() as patched:
            patched.setattr(engine, "execute_search_with_index", lite_search.search_dense)
            patched.setattr(engine.Collection, "_search_sparse", lite_search.search_sparse)
            assert answers(collection, random.Random(number)) == wanted
