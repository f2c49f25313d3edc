"""A Qdrant server by its client over gRPC; every write waits until it is applied, as the store's do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import orjson
from qdrant_client import QdrantClient, models

from benchmarks.byhand.client import COLLECTION, FIELD
from rag.core.records import RecordBatch, SearchParams
from rag.core.types import Vector, Vectors
from stores.qdrant.store import CANDIDATES_PER_EF

KEYS = ["id", "document", "generation", "text", "place", "metadata"]
EF = SearchParams().ef_search * CANDIDATES_PER_EF
"""Candidates that HNSW keeps, as many as in a search of the store at its defaults."""
SETTLE_SECONDS = 1800.0


class QdrantByHand:
    """See ``Client``."""

    def __init__(self, client: QdrantClient) -> None:
        self._client = client
        self._params = models.SearchParams(hnsw_ef=EF, exact=False)

    def load(self, batch: RecordBatch) -> None:
        """See ``Client``."""
        points = [
            models.PointStruct(id=str(batch.ids[i]), vector=_vectors(batch, i), payload=payload_of(batch, i))
            for i in range(len(batch))
        ]
        self._client.upsert(COLLECTION, points=points, wait=True)

    def settle(self) -> None:
        """See ``Client``; the server is done when it says so."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._client.get_collection(COLLECTION).status != models.CollectionStatus.GREEN:
            if time.monotonic() > deadline:
                raise TimeoutError("the server did not finish its index")
            time.sleep(0.2)

    def search(self, vector: Vector, *, limit: int, below: int | None) -> int:
        """See ``Client``."""
        found = self._client.query_points(
            COLLECTION,
            query=vector.tolist(),
            using="dense",
            query_filter=_filter(below),
            search_params=self._params,
            limit=limit,
            with_payload=KEYS,
        )
        return len(found.points)

    def search_all(self, vectors: Vectors, *, limit: int, below: int | None, workers: int) -> Sequence[int]:
        """See ``Client``."""
        if workers == 1:
            return [self.search(vector, limit=limit, below=below) for vector in vectors]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda vector: self.search(vector, limit=limit, below=below), vectors))


@contextmanager
def open_byhand(options: Mapping[str, Any]) -> Iterator[QdrantByHand]:
    """A client of the server at ``options["url"]``."""
    client = QdrantClient(url=options["url"], prefer_grpc=True, timeout=60, check_compatibility=False)
    try:
        yield QdrantByHand(client)
    finally:
        client.close()


def payload_of(batch: RecordBatch, i: int) -> dict[str, Any]:
    """What is kept beside the vectors of row ``i``."""
    place = [batch.indexes[i], batch.starts[i], batch.ends[i], batch.pages[i], list(batch.headings[i])]
    return {
        "tenant": batch.tenant,
        "acl": ["*"],
        "document": str(batch.documents[i]),
        "generation": batch.generations[i],
        "id": str(batch.ids[i]),
        "text": batch.texts[i],
        "place": orjson.dumps([*place, batch.qualities[i].value]).decode(),
        "metadata": orjson.dumps(batch.metadata[i]).decode(),
        "f": {"has": [0], "v0": batch.metadata[i][FIELD]},
    }


def _vectors(batch: RecordBatch, i: int) -> dict[str, Any]:
    terms = models.SparseVector(indices=list(batch.terms[i]), values=list(batch.terms[i].values()))
    return {"dense": batch.vectors[i].tolist(), "terms": terms}


def _filter(below: int | None) -> models.Filter:
    conditions: list[models.Condition] = [
        models.FieldCondition(key="tenant", match=models.MatchValue(value="default")),
        models.FieldCondition(key="acl", match=models.MatchAny(any=["*"])),
    ]
    if below is not None:
        conditions.append(models.FieldCondition(key="f.v0", range=models.Range(lt=below)))
    return models.Filter(must=conditions)
