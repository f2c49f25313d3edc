"""What the client's models look like for a spec, a condition, a query or a point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import RestToGrpc

from rag.core.records import CollectionSpec, Metric, Quantization
from rag.core.types import FieldType, Terms
from stores.qdrant import fields
from stores.qdrant.engine import DENSE, SPARSE, Condition, Effort, Points, Query

_DISTANCES = {Metric.COSINE: models.Distance.DOT, Metric.DOT: models.Distance.DOT, Metric.L2: models.Distance.EUCLID}
"""Vectors are normalised before they are written, so cosine is a dot product and they come back as they were."""
_BYTES_A_DIMENSION = 4


def vector_params(spec: CollectionSpec) -> models.VectorParams:
    """The dense vector with its distance, graph and quantization."""
    half = spec.quantization is Quantization.HALF
    return models.VectorParams(
        size=spec.dimension,
        distance=_DISTANCES[spec.metric],
        datatype=models.Datatype.FLOAT16 if half else models.Datatype.FLOAT32,
        hnsw_config=models.HnswConfigDiff(m=spec.index.m, ef_construct=spec.index.ef_construction),
        quantization_config=_scalar() if spec.quantization is Quantization.INT8 else None,
    )


def optimizers(spec: CollectionSpec, threshold: int) -> models.OptimizersConfigDiff:
    """An index from ``threshold`` rows a segment on, which Qdrant counts in kilobytes of vectors."""
    kilobytes = max(1, threshold * spec.dimension * _BYTES_A_DIMENSION // 1024)
    return models.OptimizersConfigDiff(indexing_threshold=kilobytes)


def payload_indexes(filterable: Mapping[str, FieldType]) -> dict[str, Any]:
    """The schema of each payload index, the tenant's first."""
    integer = partial(models.IntegerIndexParams, type=models.IntegerIndexType.INTEGER)
    schemas: dict[str, Any] = {
        "keyword": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD),
        "integer": integer(lookup=True, range=True),
        "member": integer(lookup=True, range=False),
        "order": integer(lookup=False, range=True),
        "float": models.FloatIndexParams(type=models.FloatIndexType.FLOAT),
    }
    tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    ours = {"tenant": tenant, "acl": schemas["keyword"], "document": schemas["keyword"]}
    return ours | {path: schemas[kind] for path, kind in fields.indexes(filterable)}


def filter_of(condition: Condition) -> models.Filter:
    """The condition as the client's filter."""
    return models.Filter(**{how: [_condition(each) for each in inner] for how, inner in condition.items()})


def query_request(query: Query, *, condition: models.Filter, limit: int, effort: Effort | None, keys: list[str]) -> Any:
    """One ranking of a batch; without ``effort`` the server chooses."""
    dense = query.vector is not None
    return models.QueryRequest(
        query=_vector_query(query),
        using=DENSE if dense else SPARSE,
        filter=condition,
        params=_search_params(effort) if dense and effort else None,
        limit=limit,
        with_payload=keys,
    )


def point_structs(points: Points) -> list[models.PointStruct]:
    """The points as the client takes them."""
    return [
        models.PointStruct.model_construct(
            id=str(points.ids[i]), vector=_vectors(points, i), payload=dict(points.payloads[i])
        )
        for i in range(len(points))
    ]


def grpc_points(points: Points) -> list[grpc.PointStruct]:
    """The points as they go over the wire."""
    return [RestToGrpc.convert_point_struct(point) for point in point_structs(points)]


def terms_of(vector: models.SparseVector | None) -> Terms:
    """The weights that a sparse vector holds."""
    return dict(zip(vector.indices, vector.values, strict=True)) if vector else {}


def _vectors(points: Points, i: int) -> dict[str, Any]:
    vectors: dict[str, Any] = {DENSE: points.vectors[i].tolist()}
    return vectors | {SPARSE: _sparse(points.terms[i])} if points.terms[i] else vectors


def _sparse(terms: Terms) -> models.SparseVector:
    order = sorted(terms)
    return models.SparseVector(indices=order, values=np.array([terms[i] for i in order], dtype=np.float32).tolist())


def _vector_query(query: Query) -> models.NearestQuery:
    if query.vector is not None:
        return models.NearestQuery(nearest=query.vector.tolist())
    return models.NearestQuery(nearest=_sparse(query.terms))


def _search_params(effort: Effort) -> models.SearchParams:
    quantization = None
    if effort.rescore:
        quantization = models.QuantizationSearchParams(ignore=effort.exact, rescore=True, oversampling=2.0)
    return models.SearchParams(hnsw_ef=effort.ef, exact=effort.exact, quantization=quantization)


def _scalar() -> models.ScalarQuantization:
    return models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99))


def _condition(condition: Condition) -> Any:
    match condition:
        case {"has_id": ids}:
            return models.HasIdCondition(has_id=ids)
        case {"key": key, "match": {"value": value}}:
            return models.FieldCondition(key=key, match=models.MatchValue(value=value))
        case {"key": key, "match": {"any": values}}:
            return models.FieldCondition(key=key, match=models.MatchAny(any=values))
        case {"key": key, "range": bounds}:
            return models.FieldCondition(key=key, range=models.Range(**bounds))
        case _:
            return filter_of(condition)
