from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from rag.core.errors import DimensionMismatchError, FilterError, InvalidRequestError
from rag.core.filters import And, Compare, Filter, In, Not
from rag.core.records import Capabilities, CollectionSpec, Feature, HnswIndex, Metric, Quantization, RecordBatch
from rag.core.types import FieldType
from stores import validation
from stores.testing.records import FIELDS, SCOPE, records, spec_of, vector

OFFERED = Capabilities(
    features=frozenset({Feature.EXACT}),
    max_dimension=16,
    reasons={Feature.LEXICAL: "no words", Quantization.INT8: "no integers"},
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dimension": 0}, "1 to 16"),
        ({"dimension": 17}, "1 to 16"),
        ({"quantization": Quantization.INT8}, "no integers"),
        ({"quantization": Quantization.HALF}, "not offered"),
        ({"index": HnswIndex(m=1)}, "HNSW"),
        ({"index": HnswIndex(m=50, ef_construction=99)}, "HNSW"),
        ({"filterable": {"tenant": FieldType.STRING}}, "tenant"),
        ({"filterable": {"": FieldType.STRING}}, "name"),
        ({"filterable": {"a\0": FieldType.STRING}}, "NUL"),
    ],
)
def test_a_spec_that_is_not_offered_is_refused_with_the_reason(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        validation.check_spec(replace(CollectionSpec(dimension=16), **change), OFFERED)


@pytest.mark.parametrize(
    "index", [HnswIndex(), HnswIndex(m=2, ef_construction=4), HnswIndex(m=100, ef_construction=1000)]
)
def test_a_spec_within_the_limits_is_taken(index: HnswIndex) -> None:
    validation.check_spec(CollectionSpec(dimension=16, index=index, filterable={"年": FieldType.STRINGS}), OFFERED)


def test_a_feature_that_is_not_offered_is_refused_with_the_reason() -> None:
    validation.check_feature(Feature.EXACT, OFFERED)

    with pytest.raises(InvalidRequestError, match="no words"):
        validation.check_feature(Feature.LEXICAL, OFFERED)


def test_vectors_come_back_contiguous_and_in_single_precision() -> None:
    given = np.asfortranarray(np.eye(8, dtype=np.float64))

    checked = validation.check_vectors(spec_of(), given)  # type: ignore[arg-type]

    assert checked.dtype == np.float32
    assert checked.flags.c_contiguous
    assert np.array_equal(checked, given)


@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, 1e25])
def test_a_vector_whose_length_is_no_float32_is_refused(metric: Metric, value: float) -> None:
    with pytest.raises(InvalidRequestError):
        validation.check_vector(spec_of(metric=metric), np.full(8, value))  # type: ignore[arg-type]


def test_only_cosine_refuses_a_vector_without_length() -> None:
    validation.check_vector(spec_of(metric=Metric.DOT), vector())
    validation.check_vector(spec_of(metric=Metric.L2), vector(1e-30))

    for short in (vector(), vector(1e-30)):
        with pytest.raises(InvalidRequestError, match="zero"):
            validation.check_vector(spec_of(), short)


@pytest.mark.parametrize("shape", [(8,), (2, 7), (2, 2, 2), (0, 9), ()])
def test_vectors_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DimensionMismatchError):
        validation.check_vectors(spec_of(), np.ones(shape, np.float32))


@pytest.mark.parametrize(
    "filter",
    [
        Compare(operator="eq", key="unknown", value=1),
        And(filters=(Not(filter=Compare(operator="eq", key="unknown", value=1)),)),
        In(key="price", values=(1.0, float("nan"))),
        Compare(operator="lt", key="created", value=datetime(2026, 1, 1)),  # noqa: DTZ001  the point of it
        Compare(operator="eq", key="language", value="\ud800"),
    ],
    ids=str,
)
def test_a_filter_that_means_nothing_is_refused(filter: Filter) -> None:
    with pytest.raises(FilterError):
        validation.check_filter(filter, FIELDS)


def test_a_batch_comes_back_with_its_metadata_in_the_declared_types() -> None:
    batch = RecordBatch.of(records(2, metadata={"created": "2026-01-01T08:00:00+08:00", "price": 1}))

    vectors, metadata = validation.check_batch(spec_of(), SCOPE, batch)

    assert np.array_equal(vectors, batch.vectors)
    assert metadata == [{"created": datetime(2026, 1, 1, tzinfo=UTC), "price": 1.0}] * 2
    assert type(metadata[0]["price"]) is float


@pytest.mark.parametrize(
    ("column", "value"),
    [("starts", -1), ("ends", 2**63), ("generations", 2**63), ("indexes", 2**31), ("pages", 2**31), ("pages", -1)],
)
def test_a_number_that_no_column_holds_is_refused(column: str, value: int) -> None:
    batch = replace(RecordBatch.of(records(2)), **{column: [0, value]})

    with pytest.raises(InvalidRequestError, match="not within"):
        validation.check_batch(spec_of(), SCOPE, batch)
