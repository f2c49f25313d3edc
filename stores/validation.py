"""Checks that every store makes before it reads or writes anything, so that all refuse alike."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import orjson

from rag.core.errors import DimensionMismatchError, FilterError, InvalidRequestError
from rag.core.filters import And, Compare, Contains, Exists, Filter, In, Not, Or, dump_metadata, read_metadata
from rag.core.ports import Selector
from rag.core.records import ByDocument, ByIds, Capabilities, CollectionSpec, Metric, RecordBatch
from rag.core.types import FieldType, Metadata, Scope, Terms, Vector, Vectors

_NAME = re.compile(r"[a-z0-9_]{1,60}", re.ASCII)
_MAX_TERM = 2**32


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
    """Raises ``InvalidRequestError`` for a dimension or quantization that the store does not offer."""
    if not 1 <= spec.dimension <= offered.max_dimension:
        raise InvalidRequestError(f"the store takes 1 to {offered.max_dimension} dimensions, not {spec.dimension}")
    if spec.quantization not in offered.quantizations:
        reason = offered.reasons.get(spec.quantization, "it is not offered")
        raise InvalidRequestError(f"no quantization {spec.quantization} in this store: {reason}")


def check_vector(spec: CollectionSpec, vector: Vector) -> Vector:
    """The query vector as float32 of shape ``(dimension,)``; raises as ``upsert`` does."""
    return check_vectors(spec, np.asarray(vector, dtype=np.float32).reshape(1, -1)).reshape(-1)


def check_vectors(spec: CollectionSpec, vectors: Vectors) -> Vectors:
    """The vectors as contiguous float32 of shape ``(n, dimension)``.

    Raises ``DimensionMismatchError``; ``InvalidRequestError`` when one is not finite, or zero under cosine.
    """
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != spec.dimension:
        raise DimensionMismatchError(f"the collection has {spec.dimension} dimensions, the vector {rows.shape[-1]}")
    if not np.isfinite(rows).all():
        raise InvalidRequestError("a vector holds a value that is not finite")
    if spec.metric is Metric.COSINE and not rows.any(axis=1).all():
        raise InvalidRequestError("a zero vector has no direction to compare by cosine")
    return rows


def check_terms(terms: Terms) -> Terms:
    """The terms; raises ``InvalidRequestError`` for an id outside unsigned 32 bits or a weight that is not finite."""
    if not all(0 <= term < _MAX_TERM and math.isfinite(weight) for term, weight in terms.items()):
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
    """The vectors and the typed metadata of a batch that may be written; raises as ``upsert`` does."""
    if batch.tenant != scope.tenant:
        raise InvalidRequestError("the batch belongs to another tenant than the caller")
    check_scope(scope)
    for texts in (batch.texts, *batch.acls, *batch.headings):
        for text in texts:
            _check_text(text, "a text")
    for terms in batch.terms:
        check_terms(terms)
    return check_vectors(spec, batch.vectors), check_metadata(spec, batch.metadata)


def check_metadata(spec: CollectionSpec, rows: Iterable[Metadata]) -> list[Metadata]:
    """Metadata in the declared types; raises ``InvalidRequestError`` for what a filter could not read."""
    return [_typed(spec, row) for row in rows]


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
