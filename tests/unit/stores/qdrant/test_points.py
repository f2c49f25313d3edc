"""Records become points and come back whole."""

from __future__ import annotations

from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rag.core.records import Metric, RecordBatch
from stores.qdrant.batches import MAX_REQUEST_BYTES, MAX_REQUEST_ROWS, requests_of
from stores.qdrant.engine import Found
from stores.qdrant.points import point_id, points_of, query_vectors, record_of
from stores.testing.records import record, records, same, spec_of, vector


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
