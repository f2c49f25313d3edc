"""Milvus Lite in this process, by its client: a file that no one else has open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from milvus_lite.engine import collection
from milvus_lite.server_manager import server_manager_instance
from pymilvus import MilvusClient

from benchmarks.byhand.client import COLLECTION
from benchmarks.byhand.milvus import TIMEOUT, MilvusByHand
from rag.core.records import CollectionSpec
from stores.milvus.engine import Engine
from stores.milvus.lite_host import UNSEALED_BYTES
from stores.milvus.schema import Table


@contextmanager
def open_byhand(file: Path, spec: CollectionSpec) -> Iterator[MilvusByHand]:
    """An empty collection with the columns and indexes of the store's, and segments of the same size."""
    collection.MEMTABLE_MEMORY_LIMIT = UNSEALED_BYTES
    client = MilvusClient(str(file))
    try:
        table = Table(name=COLLECTION, engine=Engine(version=(0, 0, 0), lite=True), spec=spec)
        indexes = client.prepare_index_params()
        for column, parameters in table.indexes().items():
            indexes.add_index(column, index_name=column, **parameters)
        client.create_collection(COLLECTION, schema=table.schema(), timeout=TIMEOUT)
        client.create_index(COLLECTION, indexes, timeout=TIMEOUT)
        client.load_collection(COLLECTION, timeout=TIMEOUT)
        yield MilvusByHand(client, sparse=True, compares=False)
    finally:
        client.close()
        server_manager_instance.release_all()
