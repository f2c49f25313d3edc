"""Records become points and come back whole."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import DimensionMismatchError, InvalidRequestError
from rag.core.records import Metric, RecordBatch
from rag.core.types import FieldType
from stores.qdrant.batches import MAX_REQUEST_BYTES, MAX_REQUEST_ROWS, requests_of
from stores.qdrant.engine import Found
from stores.qdrant.points import hits_of, point_id, points_of, query_vector, query_vectors, record_of
from stores.testing.records import record, records, same, spec_of, vector

MOMENT = datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=UTC)


def test_a_points_id_is_the_tenants_own_and_orders_as_the_records() -> None:
    ids = sorted(record(i).id for i in range(200))

    points = [point_id("acme", id) for id in ids]

    assert points == sorted(points)
    assert len({*points, *(point_id("rival", id) for id in ids)}) == 400
    assert point_id("a", UUID(int=1)) != point_id("a", UUID(int=2))


def test_a_vector_of_any_length_comes_back_bit_by_bit_though_it_is_compared_at_length_one() -> None:
    rows = [record(0, vector=vector(3, 4)), record(1, vector=vector(1)), record(2)]
    spec = spec_of()
    batch = RecordBatch.of(rows)

    points = points_of(spec, batch, batch.vectors, batch.metadata)

    assert np.allclose(np.linalg.norm(points.vectors, axis=1), 1.0)
    assert [("vector" in payload) for payload in points.payloads] == [True, False, True]
    for row, payload, stored, terms in zip(rows, points.payloads, points.vectors, points.terms, strict=True):
        assert same(record_of(spec, Found(payload=payload, vector=stored, terms=terms)), row)


def test_only_cosine_changes_the_length_of_a_vector() -> None:
    long = np.array([[3.0, 4.0]], np.float32)

    assert query_vectors(spec_of(dimension=2), long).tolist() == [[np.float32(0.6), np.float32(0.8)]]
    for metric in (Metric.DOT, Metric.L2):
        assert query_vectors(spec_of(dimension=2, metric=metric), long) is long


def test_one_query_vector_is_as_one_of_many_and_taken_as_it_is_at_length_one() -> None:
    spec = spec_of(dimension=3)
    unit, long = np.array([0.6, 0.8, 0.0], np.float32), np.array([3.0, 4.0, 12.0], np.float32)

    assert query_vector(spec, unit) is unit
    assert np.array_equal(query_vector(spec, long), query_vectors(spec, long.reshape(1, -1))[0])


@pytest.mark.parametrize("wrong", [[np.nan, 1.0, 0.0], [np.inf, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0]], ids=repr)
def test_a_query_vector_that_cannot_be_compared_is_refused(wrong: list[float]) -> None:
    with pytest.raises((InvalidRequestError, DimensionMismatchError)):
        query_vector(spec_of(dimension=3), np.array(wrong, np.float32))


def test_hits_are_the_records_with_their_scores() -> None:
    rows = [record(i, metadata={"seen": MOMENT, "year": i}) for i in range(3)]
    spec = spec_of(filterable={"seen": FieldType.DATETIME, "year": FieldType.INTEGER})
    batch = RecordBatch.of(rows)
    points = points_of(spec, batch, batch.vectors, batch.metadata)

    hits = hits_of(spec, [(0.5 - i, payload) for i, payload in enumerate(points.payloads)])

    assert [(hit.id, hit.score, hit.text, hit.metadata) for hit in hits] == [
        (row.id, 0.5 - i, row.text, row.metadata) for i, row in enumerate(rows)
    ]


@given(st.lists(st.integers(0, MAX_REQUEST_BYTES // 6), min_size=1, max_size=8))
def test_no_request_is_too_large_and_none_of_the_points_is_left_out(lengths: list[int]) -> None:
    batch = RecordBatch.of([record(i, text="x" * length) for i, length in enumerate(lengths)])
    points = points_of(spec_of(), batch, batch.vectors, batch.metadata)

    parts = list(requests_of(points))

    assert [id for part in parts for id in part.ids] == points.ids
    for part in parts:
        assert len(part) == 1 or sum(len(each["text"]) * 4 for each in part.payloads) <= MAX_REQUEST_BYTES


def test_a_request_holds_a_bounded_number_of_rows() -> None:
    batch = RecordBatch.of(records(2 * MAX_REQUEST_ROWS + 1))
    points = points_of(spec_of(), batch, batch.vectors, batch.metadata)

    assert [len(part) for part in requests_of(points)] == [MAX_REQUEST_ROWS, MAX_REQUEST_ROWS, 1]
