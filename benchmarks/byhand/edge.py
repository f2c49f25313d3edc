"""Qdrant's embedded engine called in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import qdrant_edge as engine

from benchmarks.byhand.qdrant import EF, KEYS, payload_of
from rag.core.records import CollectionSpec, RecordBatch
from rag.core.types import Vector, Vectors
from stores.qdrant.edge import ALWAYS, config_of, index_operations


class EdgeByHand:
    """See ``Client``."""

    def __init__(self, shard: Any) -> None:
        self._shard = shard
        self._params = engine.SearchParams(hnsw_ef=EF, exact=False)

    def load(self, batch: RecordBatch) -> None:
        """See ``Client``."""
        points = [
            engine.Point(
                batch.ids[i],
                {
                    "dense": batch.vectors[i],
                    "terms": engine.SparseVector(list(batch.terms[i]), list(batch.terms[i].values())),
                },
                payload_of(batch, i),
            )
            for i in range(len(batch))
        ]
        self._shard.update(engine.UpdateOperation.upsert_points(points))

    def settle(self) -> None:
        """See ``Client``."""
        self._shard.optimize()

    def search(self, vector: Vector, *, limit: int, below: int | None) -> int:
        """See ``Client``."""
        request = engine.QueryRequest(
            limit=limit,
            query=engine.Query.Nearest(vector, "dense"),  # type: ignore[arg-type]  # it takes an array as it is
            filter=_filter(below),
            params=self._params,
            with_payload=KEYS,
        )
        return len([(point.score, point.payload) for point in self._shard.query(request)])

    def search_all(self, vectors: Vectors, *, limit: int, below: int | None, workers: int) -> Sequence[int]:
        """See ``Client``; one at a time, since the engine holds the interpreter's lock."""
        del workers
        return [self.search(vector, limit=limit, below=below) for vector in vectors]


@contextmanager
def open_byhand(folder: Path, spec: CollectionSpec) -> Iterator[EdgeByHand]:
    """An empty shard of the same configuration and payload indexes as the store's."""
    shard = engine.EdgeShard.create(str(folder), config_of(spec, threshold=ALWAYS))
    try:
        for operation in index_operations(spec):
            shard.update(operation)
        yield EdgeByHand(shard)
    finally:
        shard.close()


def _filter(below: int | None) -> Any:
    conditions: list[Any] = [
        engine.FieldCondition("tenant", match=engine.MatchValue("default")),
        engine.FieldCondition("acl", match=engine.MatchAny(["*"])),
    ]
    if below is not None:
        conditions.append(engine.FieldCondition("f.v0", range=engine.RangeFloat(lt=float(below))))
    return engine.Filter(must=conditions)
