"""Milvus by its client: a server, or Milvus Lite as the client runs it in this process."""

from __future__ import annotations

import time
from base64 import b85encode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson
from pymilvus import MilvusClient

from benchmarks.byhand.client import COLLECTION, FIELD
from rag.core.records import RecordBatch, SearchParams
from rag.core.types import Terms, Vector, Vectors
from stores.milvus.crowds import Crowd
from stores.milvus.nearest import CANDIDATES_PER_EF, CANDIDATES_PER_EF_FILTERED, least_depth

HIT = [
    "pk", "document", "generation", "place", "body", "begins", "ends", "page", "headings", "quality", "metadata",
]  # fmt: skip
EF = SearchParams().ef_search * CANDIDATES_PER_EF
"""Candidates that HNSW keeps, as many as in a search of the store at its defaults."""
EF_FILTERED = SearchParams().ef_search * CANDIDATES_PER_EF_FILTERED
TIMEOUT = 60.0
SETTLE_SECONDS = 1800.0
BOUNDED_LAG = 10.0
"""Seconds after the last write from which a bounded read is the cheapest that the store makes too."""
BOUNDED = "Bounded"


class MilvusByHand:
    """See ``Client``. ``sparse``: the server keeps lexical weights as a sparse vector too.

    ``compares``: where few rows pass a filter, the server is made to compare them, as the store does.
    """

    def __init__(self, client: MilvusClient, *, sparse: bool, compares: bool) -> None:
        self._client = client
        self._sparse = sparse
        self._compares = compares
        self._written = 0.0
        self._counts: dict[str, int] = {}

    def load(self, batch: RecordBatch) -> None:
        """See ``Client``; the strong read at the end returns when every later read sees the rows."""
        self._client.upsert(COLLECTION, [self._row(batch, i) for i in range(len(batch))], timeout=TIMEOUT)
        self._client.query(
            COLLECTION, filter='pk == ""', output_fields=["pk"], limit=1, consistency_level="Strong", timeout=TIMEOUT
        )
        self._written = time.monotonic()

    def settle(self) -> None:
        """See ``Client``."""
        self._client.flush(COLLECTION, timeout=TIMEOUT)
        deadline = time.monotonic() + SETTLE_SECONDS
        while not self._indexed():
            if time.monotonic() > deadline:
                raise TimeoutError("the server did not finish its index")
            time.sleep(0.2)
        time.sleep(max(0.0, self._written + BOUNDED_LAG - time.monotonic()))

    def search(self, vector: Vector, *, limit: int, below: int | None) -> int:
        """See ``Client``."""
        condition = "" if below is None else f" and (hf0 == true and f0 < {below:d})"
        condition = f'tenant == "default" and everyone == true{condition}'
        ef = EF if below is None else EF_FILTERED
        depth = self._depth(condition, limit) if self._compares and below is not None else 0
        if depth <= limit:
            hits = self._search(vector, condition, limit=limit, columns=HIT, ef=ef)
            return len([(hit["distance"], dict(hit["entity"])) for hit in hits])
        nearest = self._search(vector, condition, limit=depth, columns=[], ef=max(ef, depth))
        best = list(zip(nearest.distances, nearest.ids, strict=True))[:limit]
        keys = ", ".join(f'"{key}"' for _, key in best)
        rows = self._client.query(
            COLLECTION,
            filter=f"{condition} and pk in [{keys}]",
            output_fields=HIT,
            consistency_level=BOUNDED,
            timeout=TIMEOUT,
        )
        found = {row["pk"]: dict(row) for row in rows}
        return len([(distance, found[key]) for distance, key in best])

    def search_all(self, vectors: Vectors, *, limit: int, below: int | None, workers: int) -> Sequence[int]:
        """See ``Client``."""
        if workers == 1:
            return [self.search(vector, limit=limit, below=below) for vector in vectors]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda vector: self.search(vector, limit=limit, below=below), vectors))

    def _search(self, vector: Vector, condition: str, *, limit: int, columns: list[str], ef: int) -> Any:
        (hits,) = self._client.search(
            COLLECTION,
            data=[vector],
            anns_field="vector",
            filter=condition,
            limit=limit,
            output_fields=columns,
            search_params={"metric_type": "COSINE", "params": {"ef": ef}},
            consistency_level=BOUNDED,
            timeout=TIMEOUT,
        )
        return hits

    def _depth(self, condition: str, limit: int) -> int:
        """How many rows the store would ask for; nothing is written between searches, so rows are counted once."""
        crowd = Crowd(passing=self._count(condition), total=self._count(""), unsealed=0)
        return least_depth(crowd, limit=limit)

    def _count(self, condition: str) -> int:
        if condition not in self._counts:
            (row,) = self._client.query(
                COLLECTION,
                filter=condition,
                output_fields=["count(*)"],
                consistency_level=BOUNDED,
                timeout=TIMEOUT,
            )
            self._counts[condition] = int(row["count(*)"])
        return self._counts[condition]

    def _indexed(self) -> bool:
        told = self._client.describe_index(COLLECTION, "vector", timeout=TIMEOUT) or {}
        return int(told.get("indexed_rows", 0)) >= int(told.get("total_rows", 0))

    def _row(self, batch: RecordBatch, i: int) -> dict[str, Any]:
        row = {
            "pk": batch.ids[i].hex + "0" * 32,
            "tenant": batch.tenant,
            "everyone": True,
            "acl": list(batch.acls[i]),
            "vector": batch.vectors[i],
            "weights": _packed(batch.terms[i]),
            "document": batch.documents[i].hex,
            "generation": batch.generations[i],
            "place": batch.indexes[i],
            "body": batch.texts[i],
            "begins": batch.starts[i],
            "ends": batch.ends[i],
            "page": -1,
            "headings": orjson.dumps(list(batch.headings[i])).decode(),
            "quality": batch.qualities[i].value,
            "metadata": orjson.dumps(batch.metadata[i]).decode(),
            "f0": batch.metadata[i][FIELD],
            "hf0": True,
        }
        return row | {"terms": batch.terms[i]} if self._sparse else row


@contextmanager
def open_byhand(uri: str, *, sparse: bool) -> Iterator[MilvusByHand]:
    """A client of the server."""
    client = MilvusClient(uri)
    try:
        yield MilvusByHand(client, sparse=sparse, compares=True)
    finally:
        client.close()


def _packed(terms: Terms) -> str:
    pairs = np.empty(len(terms), dtype=[("term", "<u4"), ("weight", "<f4")])
    pairs["term"] = list(terms)
    pairs["weight"] = list(terms.values())
    return b85encode(pairs.tobytes()).decode()
