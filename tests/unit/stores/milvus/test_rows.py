from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rag.core.errors import InvalidRequestError
from rag.core.records import CollectionSpec, Quantization, RecordBatch
from rag.core.types import FieldType
from stores.milvus.engine import Engine
from stores.milvus.rows import MAX_BYTES, MAX_ROWS, pack_terms, requests_of, rows_of, sparse, unpack_terms
from stores.milvus.schema import Table
from stores.testing.records import record, records

LITE = Engine(version=(3, 2, 2), lite=True)


def table(**given: Any) -> Table:
    return Table(name="c", engine=LITE, spec=CollectionSpec(dimension=8, **given))


def packed(*rows: Any, **given: Any) -> list[dict[str, Any]]:
    batch = RecordBatch.of(rows)
    return rows_of(table(**given), batch, batch.vectors, list(batch.metadata))


def test_terms_are_kept_whole_though_the_index_holds_fewer() -> None:
    terms = {0: 0.5, 7: 0.0, 2**32 - 1: 2.25}

    assert unpack_terms(pack_terms(terms)) == terms
    assert sparse(terms) == {0: 0.5}
    assert packed(record(0, terms={}))[0]["terms"]


def test_requests_are_bounded_by_rows_and_by_bytes() -> None:
    many = packed(*records(2500))
    large = packed(*(record(i, text="字" * 20_000) for i in range(600)))

    assert [len(each) for each in requests_of(many)] == [MAX_ROWS, MAX_ROWS, 500]
    sizes = [sum(len(row["body"].encode()) for row in each) for each in requests_of(large)]
    assert max(sizes) <= MAX_BYTES
    assert sum(len(each) for each in requests_of(large)) == 600
    assert list(requests_of([])) == []


@pytest.mark.parametrize(
    "fault",
    [
        {"text": "字" * 21_846},
        {"headings": ("x" * 70_000,)},
        {"acl": ("x",) * 5000},
        {"metadata": {"free": "x" * 70_000}},
        {"metadata": {"tags": ["x"] * 5000}},
        {"terms": dict.fromkeys(range(7000), 1.0)},
        {"terms": {7: -1.0}},
        {"tenant": "x" * 70_000},
    ],
    ids=str,
)
def test_what_a_column_cannot_hold_is_refused_and_not_cut(fault: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        packed(record(0, **fault), filterable={"tags": FieldType.STRINGS})


def test_a_vector_out_of_float16s_range_is_refused_where_that_is_what_is_kept() -> None:
    with pytest.raises(InvalidRequestError):
        packed(record(0, vector=np.full(8, 1e6, np.float32)), quantization=Quantization.HALF)


def test_more_filterable_fields_than_there_are_columns_for_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="no room"):
        table(filterable={f"field {i}": FieldType.INTEGER for i in range(40)}).schema()
