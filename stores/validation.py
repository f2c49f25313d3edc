"""Checks that every store makes before it reads or writes anything, so that all refuse alike."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import numpy as np
import orjson

from rag.core.errors import DimensionMismatchError, FilterError, InvalidRequestError
from rag.core.filters import (
    RESERVED_FIELDS,
    And,
    Compare,
    Contains,
    Exists,
    Filter,
    In,
    Not,
    Or,
    dump_metadata,
    read_metadata,
)
from rag.core.ports import Selector
from rag.core.records import ByDocument, ByIds, Capabilities, CollectionSpec, Feature, HnswIndex, Metric, RecordBatch
from rag.core.types import FieldType, Metadata, Scope, Terms, Vector, Vectors

_NAME = re.compile(r"[a-z0-9_]{1,60}", re.ASCII)
_MAX_TERM = 2**32
_MAX_WEIGHT = float(np.finfo(np.float32).max)
_INT32, _INT64 = 2**31, 2**63


def check_name(collection: str) -> str:
    """The physical name itself; raises ``InvalidRequestError`` unless it is 1–60 of ``a-z 0-9 _``."""
    if not _NAME.fullmatch(collection):
        raise InvalidRequestError(f"{collection!r} is not the name of a physical collection")
    return collection


def check_scope(scope: Scope) -> None:
    """Raises ``InvalidRequestError`` for a tenant or group that is not plain text."""
    for name in (scope.tenant, *(scope.groups or ())):
        _check_text(name, "a tenant or group")


def check_limit(limit: int) -> None:
    """Raises ``InvalidRequestError`` for a limit below one."""
    if limit < 1:
        raise InvalidRequestError("a search needs a limit of at least 1")


def check_spec(spec: CollectionSpec, offered: Capabilities) -> None:
    """Raises ``InvalidRequestError`` for what the store does not offer, or no store could keep.

    That is its dimension, its quantization, its HNSW parameters and the names of its filterable fields.
    """
    if not 1 <= spec.dimension <= offered.max_dimension:
        raise InvalidRequestError(f"the store takes 1 to {offered.max_dimension} dimensions, not {spec.dimension}")
    if spec.quantization not in offered.quantizations:
        reason = offered.reasons.get(spec.quantization, "it is not offered")
        raise InvalidRequestError(f"no quantization {spec.quantization} in this store: {reason}")
    _check_index(spec.index)
    for name in spec.filterable:
        _check_text(name, "the name of a field")
        if not name or name in RESERVED_FIELDS:
            raise InvalidRequestError(f"{name!r} cannot be the name of a metadata field")


def check_feature(feature: Feature, offered: Capabilities) -> None:
    """Raises ``InvalidRequestError`` with the reason where the store does not offer ``feature``."""
    if feature not in offered.features:
        raise InvalidRequestError(f"no {feature} search in this store: {offered.reasons[feature]}")


def check_vector(spec: CollectionSpec, vector: Vector) -> Vector:
    """The query vector as float32 of shape ``(dimension,)``; raises as ``upsert`` does."""
    return check_vectors(spec, np.asarray(vector).reshape(1, -1)).reshape(-1)


def check_vectors(spec: CollectionSpec, vectors: Vectors) -> Vectors:
    """The vectors as contiguous float32 of shape ``(n, dimension)``.

    Raises ``DimensionMismatchError``; ``InvalidRequestError`` when one is not finite, or too long for its length to
    be a float32, or zero under cosine.
    """
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != spec.dimension:
            raise DimensionMismatchError(f"the collection has {spec.dimension} dimensions, the vector {rows.shape[-1]}")
        lengths = np.einsum("ij,ij->i", rows, rows)
    if not np.isfinite(lengths).all():
        raise InvalidRequestError("a vector holds a value that is not finite, or is too long to be compared")
    if spec.metric is Metric.COSINE and not lengths.all():
        raise InvalidRequestError("a zero vector has no direction to compare by cosine")
    return rows


def check_terms(terms: Terms) -> Terms:
    """The terms; raises ``InvalidRequestError`` for an id outside unsigned 32 bits or a weight that is no float32."""
    if not all(0 <= term < _MAX_TERM and abs(weight) <= _MAX_WEIGHT for term, weight in terms.items()):
        raise InvalidRequestError("a term id is an unsigned 32-bit number and its weight is finite")
    return terms


def check_filter(filter: Filter | None, fields: Mapping[str, FieldType]) -> None:
    """Raises ``FilterError`` for a key that is not declared, a NaN, or text that cannot be stored."""
    for condition in _conditions(filter):
        if condition.key not in fields:
            raise FilterError(f"{condition.key!r} is not a filterable field of this collection")
        for value in _values(condition):
            _check_value(condition.key, value)


def check_selector(selector: Selector | None, fields: Mapping[str, FieldType]) -> None:
    """As :func:`check_filter`, where the selector is a filter."""
    if not isinstance(selector, ByIds | ByDocument):
        check_filter(selector, fields)


def check_batch(spec: CollectionSpec, scope: Scope, batch: RecordBatch) -> tuple[Vectors, list[Metadata]]:
    """The vectors and the typed metadata of a batch that may be written; raises as ``upsert`` does.

    Reads every text and number: call it in a thread.
    """
    if batch.tenant != scope.tenant:
        raise InvalidRequestError("the batch belongs to another tenant than the caller")
    check_scope(scope)
    _check_columns(batch)
    for texts in (batch.texts, *batch.acls, *batch.headings):
        for text in texts:
            _check_text(text, "a text")
    for terms in batch.terms:
        check_terms(terms)
    for numbers, bound in (
        (batch.starts, _INT64),
        (batch.ends, _INT64),
        (batch.generations, _INT64),
        (batch.indexes, _INT32),
        ([page for page in batch.pages if page is not None], _INT32),
    ):
        _check_numbers(numbers, bound)
    return check_vectors(spec, batch.vectors), check_metadata(spec, batch.metadata)


def check_metadata(spec: CollectionSpec, rows: Iterable[Metadata]) -> list[Metadata]:
    """Metadata in the declared types; raises ``InvalidRequestError`` for what a filter could not read."""
    return [_typed(spec, row) for row in rows]


def _check_index(index: HnswIndex) -> None:
    if not (2 <= index.m <= 100 and max(4, 2 * index.m) <= index.ef_construction <= 1000):
        raise InvalidRequestError("HNSW takes m from 2 to 100 and ef_construction from twice m to 1000")


def _check_columns(batch: RecordBatch) -> None:
    columns = (getattr(batch, name) for name in RecordBatch.__slots__ if name != "tenant")
    if any(len(column) != len(batch) for column in columns):
        raise InvalidRequestError("the columns of a batch differ in length")


def _check_numbers(numbers: Sequence[int], bound: int) -> None:
    if not all(0 <= number < bound for number in numbers):
        raise InvalidRequestError(f"an offset, index, page or generation is not within 0 and {bound - 1}")


def _typed(spec: CollectionSpec, metadata: Metadata) -> Metadata:
    if not metadata:
        return {}
    try:
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in metadata.items()}
        typed = read_metadata(plain, spec.filterable)
        orjson.dumps(dump_metadata(typed))
    except (FilterError, orjson.JSONEncodeError) as exc:
        raise InvalidRequestError(f"the metadata cannot be stored: {exc}") from exc
    return typed


def _conditions(filter: Filter | None) -> Iterator[Compare | In | Exists | Contains]:
    match filter:
        case None:
            return
        case And(filters=filters) | Or(filters=filters):
            for each in filters:
                yield from _conditions(each)
        case Not(filter=inner):
            yield from _conditions(inner)
        case _:
            yield filter


def _values(condition: Compare | In | Exists | Contains) -> tuple[object, ...]:
    match condition:
        case In(values=values):
            return values
        case Exists():
            return ()
        case _:
            return (condition.value,)


def _check_value(key: str, value: object) -> None:
    if isinstance(value, float) and math.isnan(value):
        raise FilterError(f"{key!r} is compared with NaN")
    if isinstance(value, datetime) and value.tzinfo is None:
        raise FilterError(f"{key!r} is compared with a moment that has no time zone")
    if isinstance(value, str):
        try:
            _check_text(value, f"the value of {key!r}")
        except InvalidRequestError as exc:
            raise FilterError(exc.message) from exc


def _check_text(text: str, what: str) -> None:
    if "\0" in text:
        raise InvalidRequestError(f"{what} holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidRequestError(f"{what} holds half of a surrogate pair") from exc
