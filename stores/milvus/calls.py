"""The requests that the store makes, as blocking calls: each with its timeout and its consistency."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from pymilvus import CollectionSchema, MilvusClient, MilvusException

from rag.core.errors import CollectionNotFoundError, StoreError
from rag.core.types import Terms, Vectors
from stores.milvus.engine import Engine
from stores.milvus.errors import is_not_loaded, store_errors
from stores.milvus.filters import EVERYTHING, Where
from stores.milvus.rows import Row, requests_of
from stores.milvus.schema import SPEC_PROPERTY, Table

MAX_TOP = 16_384
"""Hits of one search, and rows of one query."""

Result = TypeVar("Result")
Read = TypeVar("Read")
_LOAD_SECONDS = 120.0
_POLL_SECONDS = 0.05
_SMALLEST_INDEX = 1024
"""Rows of a segment below which a server builds no index for it and compares them all."""
_ROWS_OF_ANSWER = 32_768
"""Hits of all queries of one request."""
_ANY_DISTANCE: Mapping[str, float] = {"L2": 1e30}
_ANY_LIKENESS = -1e30
_STRONG = "Strong"
_STRONG_DELETE = 0
"""The same level, which a delete takes as a number only."""


class Abandoned(Exception):  # noqa: N818  no error: nobody waits for the call any more
    """The caller was cancelled."""


class Calls:
    """One caller's requests, made in a thread; ``stop`` tells that he has gone.

    ``level`` is the consistency of his reads, see ``stores.milvus.consistency``.
    """

    def __init__(
        self, client: MilvusClient, engine: Engine, *, timeout: float, level: str, stop: threading.Event
    ) -> None:
        self._client = client
        self.engine = engine
        self._timeout = timeout
        self._level = level
        self._stop = stop

    def version(self) -> str:
        """What the server calls itself."""
        return str(self._client.get_server_version(timeout=self._timeout))

    def describe(self, collection: str) -> Mapping[str, Any]:
        """What the server says of the collection; raises ``CollectionNotFoundError``."""
        with store_errors(collection):
            return dict(self._client.describe_collection(collection, timeout=self._timeout))

    def exists(self, collection: str) -> bool:
        """Whether there is such a collection."""
        return bool(self._client.has_collection(collection, timeout=self._timeout))

    def create(self, table: Table, schema: CollectionSchema, *, partitions: int) -> None:
        """Create the collection without its indexes."""
        options: dict[str, Any] = {"properties": {SPEC_PROPERTY: table.description}} if self.engine.lite else {}
        if self.engine.partition_keys:
            options["num_partitions"] = partitions
        self._client.create_collection(
            table.name, schema=schema, consistency_level="Bounded", timeout=self._timeout, **options
        )

    def prepare(self, table: Table, *, replicas: int) -> None:
        """Create what indexes are missing, and load the collection; returns when it can be read."""
        for column, parameters in table.indexes().items():
            if column not in self._indexed(table.name):
                self._index(table.name, column, parameters)
        self.load(table.name, replicas=replicas)

    def load(self, collection: str, *, replicas: int = 1) -> None:
        """Have the collection loaded; returns when it can be read."""
        deadline = time.monotonic() + _LOAD_SECONDS
        self._client.load_collection(collection, timeout=self._timeout, replica_number=replicas, _async=True)
        while not self._is_loaded(collection):
            self._pause(deadline, f"the collection {collection} was not loaded within {_LOAD_SECONDS:g} s")

    def drop(self, collection: str) -> None:
        """Drop; a missing one is a no-op."""
        self._client.drop_collection(collection, timeout=self._timeout)

    def upsert(self, collection: str, rows: Sequence[Row]) -> None:
        """Write the rows and wait until every read that begins from now on sees them."""
        for request in requests_of(rows):
            if self._stop.is_set():
                raise Abandoned
            self._client.upsert(collection, request, timeout=self._timeout)
        self._barrier(collection)

    def delete(self, collection: str, where: Where) -> None:
        """Delete the rows and wait until no read that begins from now on sees them."""
        self._client.delete(
            collection,
            filter=where.text,
            timeout=self._timeout,
            consistency_level=_STRONG_DELETE,
            **_parameters(where),
        )
        self._barrier(collection)

    def count(self, collection: str, where: Where = EVERYTHING) -> int:
        """The number of rows, exact as of now."""
        return self._count(collection, where, level=_STRONG)

    def visible(self, collection: str, where: Where = EVERYTHING) -> int:
        """The number of rows that a search of this call sees."""
        return self._count(collection, where, level=self._level)

    def sealed(self, collection: str) -> int:
        """How many rows a search reads from sealed segments; a server answers for the others from memory."""
        if self.engine.lite:
            return self.visible(collection)
        return self._count(collection, EVERYTHING, level=self._level, ignore_growing=True)

    def page(self, collection: str, where: Where, columns: Sequence[str], *, limit: int) -> list[Row]:
        """The first rows by primary key."""
        # A server takes the consistency of a query in this order from the collection, which was created with it.
        ordered = {"iterator": "True"} if self.engine.ordered_pages else {}
        rows = self._client.query(
            collection,
            filter=where.text,
            output_fields=list(columns),
            limit=limit,
            consistency_level=self._level,
            timeout=self._timeout,
            strict_float32=True,
            **ordered,
            **_parameters(where),
        )
        return [dict(row) for row in rows]

    def pages(self, collection: str, where: Where, columns: Sequence[str], *, size: int) -> Iterator[list[Row]]:
        """All rows by primary key, ``size`` at a time."""
        rest = where
        while rows := self.page(collection, rest, columns, limit=size):
            yield rows
            if len(rows) < size:
                return
            if self._stop.is_set():
                raise Abandoned
            rest = where.after(rows[-1]["pk"])

    def nearest(
        self, table: Table, where: Where, vectors: Vectors, columns: Sequence[str], *, limit: int, ef: int
    ) -> list[list[Row]]:
        """For each vector the nearest rows by the index, each with its ``distance``."""
        found = self._nearest(table, where, vectors, columns, limit=limit, parameters={"ef": max(ef, limit)})
        return [[_row(hit) for hit in hits] for hits in found]

    def nearest_keys(
        self, table: Table, where: Where, vectors: Vectors, *, limit: int, ef: int, within: bool = False
    ) -> list[list[tuple[float, str]]]:
        """For each vector the distances and primary keys of the nearest rows.

        ``within``: of those within a distance that all rows are within, for which a server goes through every list
        of the coarse index that it keeps of rows in memory, and not only through an eighth of them.
        """
        parameters: dict[str, float] = {"ef": max(ef, limit)}
        if within:
            parameters["radius"] = _ANY_DISTANCE.get(table.metric_type, _ANY_LIKENESS)
        found: list[list[tuple[float, str]]] = []
        size = max(1, _ROWS_OF_ANSWER // limit)
        for start in range(0, len(vectors), size):
            if self._stop.is_set():
                raise Abandoned
            some = vectors[start : start + size]
            columns = ["pk"] if self.engine.lite else []
            answer = self._nearest(table, where, some, columns, limit=limit, parameters=parameters)
            found += [list(zip(hits.distances, hits.ids, strict=True)) for hits in answer]
        return found

    def matching(self, collection: str, where: Where, terms: Terms, *, limit: int) -> list[Row]:
        """The primary keys with the greatest dot products with ``terms``."""
        parameters = {"metric_type": "IP", "params": {}}
        (hits,) = self._search(collection, where, [terms], "terms", ["pk"], limit=limit, parameters=parameters)
        return [_row(hit) for hit in hits]

    def index_state(self, collection: str) -> tuple[int, bool]:
        """Rows that searches find by the vector index, and whether those are all that are sealed.

        An index that is built is not searched yet: for seconds more a server answers from what it had in memory,
        by a coarser index that misses a part of the nearest.
        """
        told = self._client.describe_index(collection, "vector", timeout=self._timeout) or {}
        covered, total = int(told.get("indexed_rows", 0)), int(told.get("total_rows", 0))
        built = covered >= total and not int(told.get("pending_index_rows", 0))
        if self.engine.lite:
            return covered, built
        sealed = self._client.list_persistent_segments(collection, timeout=self._timeout)
        loaded = self._client.list_loaded_segments(collection, timeout=self._timeout)
        served = {
            each.segment_id: each.num_rows
            for each in loaded
            if each.state_name == "Sealed" and (each.index_name or each.num_rows < _SMALLEST_INDEX)
        }
        wanted = {each.segment_id for each in sealed if each.num_rows and each.level_name != "L0"}
        return sum(served.values()), built and wanted <= served.keys()

    def wait_indexed(self, collection: str, *, timeout: float) -> None:
        """Return when searches find all rows of now by the index; raises ``StoreError`` after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        rows = self.visible(collection)
        self._client.flush(collection, timeout=timeout)
        while not (self.index_state(collection)[1] and self._has_turned(collection, rows)):
            self._pause(deadline, f"the index of {collection} was not ready within {timeout:g} s")

    def _has_turned(self, collection: str, rows: int) -> bool:
        """Whether searches read the sealed segments that hold the ``rows``, less those deleted since."""
        return self.engine.lite or self.sealed(collection) >= min(rows, self.visible(collection))

    def _indexed(self, collection: str) -> list[str]:
        return list(self._client.list_indexes(collection, timeout=self._timeout))

    def _index(self, collection: str, column: str, parameters: Mapping[str, Any]) -> None:
        wanted = self._client.prepare_index_params()
        wanted.add_index(column, index_name=column, **parameters)
        try:
            self._client.create_index(collection, wanted, timeout=self._timeout, sync=False)
        except MilvusException:
            # Someone else may have created it meanwhile.
            if column not in self._indexed(collection):
                raise

    def _nearest(
        self,
        table: Table,
        where: Where,
        vectors: Vectors,
        columns: Sequence[str],
        *,
        limit: int,
        parameters: Mapping[str, float],
    ) -> list[Any]:
        data = [np.ascontiguousarray(each) for each in (vectors.astype(np.float16) if table.half else vectors)]
        wanted = {"metric_type": table.metric_type, "params": dict(parameters)}
        return self._search(table.name, where, data, "vector", columns, limit=limit, parameters=wanted)

    def _count(self, collection: str, where: Where, *, level: str, **options: Any) -> int:
        (row,) = self._client.query(
            collection,
            filter=where.text,
            output_fields=["count(*)"],
            consistency_level=level,
            timeout=self._timeout,
            **options,
            **_parameters(where),
        )
        return int(row["count(*)"])

    def _search(
        self,
        collection: str,
        where: Where,
        data: list[Any],
        column: str,
        columns: Sequence[str],
        *,
        limit: int,
        parameters: Mapping[str, Any],
    ) -> list[Any]:
        return self._client.search(  # type: ignore[no-any-return]
            collection,
            data=data,
            anns_field=column,
            filter=where.text,
            limit=limit,
            output_fields=list(columns),
            search_params=dict(parameters),
            consistency_level=self._level,
            timeout=self._timeout,
            **_parameters(where),
        )

    def _barrier(self, collection: str) -> None:
        self._client.query(
            collection,
            filter='pk == ""',
            output_fields=["pk"],
            limit=1,
            consistency_level=_STRONG,
            timeout=self._timeout,
        )

    def _is_loaded(self, collection: str) -> bool:
        state = self._client.get_load_state(collection, timeout=self._timeout)["state"]
        if getattr(state, "name", "") == "NotExist":
            raise CollectionNotFoundError(f"no collection {collection}")
        return getattr(state, "name", "") == "Loaded"

    def _pause(self, deadline: float, complaint: str) -> None:
        if time.monotonic() > deadline:
            raise StoreError(complaint)
        if self._stop.wait(_POLL_SECONDS):
            raise Abandoned


def loaded_first(calls: Calls, collection: str, read: Callable[[Calls], Result], *, replicas: int) -> Result:
    """The result of ``read``, after loading the collection where a restart left it unloaded."""
    try:
        return read(calls)
    except MilvusException as exc:
        if not is_not_loaded(exc):
            raise
    calls.load(collection, replicas=replicas)
    return read(calls)


def _row(hit: Mapping[str, Any]) -> Row:
    return {**hit["entity"], "pk": hit["pk"], "distance": hit["distance"]}


def _parameters(where: Where) -> dict[str, Any]:
    return {"filter_params": dict(where.parameters)} if where.parameters else {}
