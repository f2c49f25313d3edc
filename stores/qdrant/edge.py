"""The embedded engine's own values: its configuration, conditions, points and queries.

Every call into the engine holds the interpreter's lock until it returns, so threads gain nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import orjson
import qdrant_edge

from rag.core.records import CollectionSpec, Metric, Quantization
from stores.qdrant import fields, wire
from stores.qdrant.engine import DENSE, SPARSE, Condition
from stores.qdrant.points import HIT_KEYS

engine: Any = qdrant_edge
"""Its type stubs ask for exactly ``list`` of all kinds of ids where any sequence of UUIDs will do."""
Shard: TypeAlias = qdrant_edge.EdgeShard
NEVER = 2_000_000_000
"""Kilobytes of vectors at which nothing is ever indexed."""
ALWAYS = 1
_SCAN_BELOW_KILOBYTES = 5_000
"""Rows that pass a filter are scanned when their vectors are fewer: exact, and faster than a thinned graph."""
_WITH_HITS = engine.PayloadSelector.Include(list(HIT_KEYS))
_DISTANCES = {Metric.COSINE: engine.Distance.Dot, Metric.DOT: engine.Distance.Dot, Metric.L2: engine.Distance.Euclid}


def config_of(spec: CollectionSpec, *, threshold: int) -> Any:
    """The configuration of a shard that indexes segments of ``threshold`` kilobytes when it is optimized."""
    half = spec.quantization is Quantization.HALF
    types = engine.VectorStorageDatatype
    return engine.EdgeConfig(
        vectors={
            DENSE: engine.EdgeVectorParams(
                size=spec.dimension,
                distance=_DISTANCES[spec.metric],
                datatype=types.Float16 if half else types.Float32,
                quantization_config=_scalar() if spec.quantization is Quantization.INT8 else None,
            )
        },
        sparse_vectors={SPARSE: engine.EdgeSparseVectorParams()},
        hnsw_config=engine.HnswIndexConfig(
            m=spec.index.m, ef_construct=spec.index.ef_construction, full_scan_threshold=_SCAN_BELOW_KILOBYTES
        ),
        optimizers=engine.EdgeOptimizersConfig(indexing_threshold=threshold, default_segment_number=1),
    )


def index_operations(spec: CollectionSpec) -> Iterator[Any]:
    """The updates that make the payload indexes, the tenant's first."""
    schemas: Mapping[str, Any] = {
        "keyword": engine.KeywordIndexParams(),
        "integer": engine.IntegerIndexParams(lookup=True, range=True),
        "member": engine.IntegerIndexParams(lookup=True, range=False),
        "order": engine.IntegerIndexParams(lookup=False, range=True),
        "float": engine.FloatIndexParams(),
    }
    create = engine.UpdateOperation.create_field_index
    yield create("tenant", engine.KeywordIndexParams(is_tenant=True))
    yield create("acl", schemas["keyword"])
    yield create("document", schemas["keyword"])
    for path, kind in fields.indexes(spec.filterable):
        yield create(path, schemas[kind])


def upsert_operation(header: wire.Header, vectors: Any, first: int, last: int) -> Any:
    """The update that writes the rows ``first`` to ``last - 1`` of an upsert."""
    ids, terms, payloads = header["ids"], header["terms"], header["payloads"]
    return engine.UpdateOperation.upsert_points(
        [engine.Point(UUID(ids[i]), _vectors(vectors[i], terms[i]), payloads[i]) for i in range(first, last)]
    )


def copy_operation(records: list[Any]) -> Any:
    """The update that writes points as another shard gave them back."""
    return engine.UpdateOperation.upsert_points(
        [engine.Point(record.id, _readable(record.vector), record.payload) for record in records]
    )


def delete_operation(ids: list[UUID]) -> Any:
    """The update that deletes points by id."""
    return engine.UpdateOperation.delete_points(ids)


def payload_operation(ids: list[UUID], payload: Mapping[str, Any]) -> Any:
    """The update that replaces top-level keys of the payload."""
    return engine.UpdateOperation.set_payload(ids, dict(payload))


def filter_of(condition: Condition) -> Any:
    """The condition as the engine's filter."""
    return engine.Filter(**{how: [_condition(each) for each in inner] for how, inner in condition.items()})


def query_requests(header: wire.Header, body: bytes) -> Any:
    """The batch of queries of a request: the vectors of the body, then the terms of the header."""
    chosen, params = _known_filter(header["filter"]), _search_params(header)
    dense = [
        engine.QueryRequest(
            limit=header["limit"],
            query=engine.Query.Nearest(vector, DENSE),
            filter=chosen,
            params=params,
            with_payload=_WITH_HITS,
        )
        for vector in wire.vectors_of(body, header["dense"]).tolist()
    ]
    lexical = [
        engine.QueryRequest(
            limit=header["limit"],
            query=engine.Query.Nearest(engine.SparseVector(*pair), SPARSE),
            filter=chosen,
            with_payload=_WITH_HITS,
        )
        for pair in header["sparse"]
    ]
    return engine.QueryBatchRequest([*dense, *lexical])


def count_request(condition: Condition) -> Any:
    """The exact count of what passes."""
    return engine.CountRequest(exact=True, filter=filter_of(condition))


def scroll_request(condition: Condition, *, after: UUID | None, limit: int, whole: bool) -> Any:
    """A page of what passes, in order of id; without payload and vectors unless ``whole``."""
    return engine.ScrollRequest(
        offset=after, limit=limit, filter=filter_of(condition), with_payload=whole, with_vector=whole
    )


def parts_of(record: Any) -> tuple[Mapping[str, Any], list[list[Any]], bytes]:
    """The payload, the terms and the bytes of the dense vector of a point."""
    vectors = record.vector
    kept = vectors.get(SPARSE)
    pair: list[list[Any]] = [kept.indices, kept.values] if kept else [[], []]
    return record.payload or {}, pair, np.asarray(vectors[DENSE], dtype="<f4").tobytes()


def _vectors(vector: Any, pair: list[list[Any]]) -> dict[str, Any]:
    return {DENSE: vector, SPARSE: engine.SparseVector(*pair)} if pair[0] else {DENSE: vector}


def _readable(vectors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: vector for name, vector in vectors.items() if name == DENSE or vector.indices}


@lru_cache(maxsize=64)
def _known_filter(condition: str) -> Any:
    """The filter of a condition as JSON: searches come with the same few again and again."""
    return filter_of(orjson.loads(condition))


def _search_params(header: wire.Header) -> Any:
    quantization = None
    if header["rescore"]:
        quantization = engine.QuantizationSearchParams(ignore=header["exact"], rescore=True, oversampling=2.0)
    return engine.SearchParams(hnsw_ef=header["ef"], exact=header["exact"], quantization=quantization)


def _scalar() -> Any:
    return engine.ScalarQuantizationConfig(engine.ScalarType.Int8, quantile=0.99)


def _condition(condition: Condition) -> Any:
    match condition:
        case {"has_id": ids}:
            return engine.HasIdCondition({UUID(id) for id in ids})
        case {"key": key, "match": {"value": value}}:
            return engine.FieldCondition(key, match=engine.MatchValue(value))
        case {"key": key, "match": {"any": values}}:
            return engine.FieldCondition(key, match=engine.MatchAny(values))
        case {"key": key, "range": bounds}:
            return engine.FieldCondition(key, range=engine.RangeFloat(**bounds))
        case _:
            return filter_of(condition)
