"""Rows of Milvus Lite's segments, read from remembered columns."""

import gc

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("milvus_lite")

from milvus_lite.storage.segment import Segment

from stores.milvus import lite_rows

ENGINES_OWN = lite_rows._read


def segment(table: pa.Table) -> Segment:
    count = table.num_rows
    return Segment(
        file_path="", partition="_default", pk_field="pk", vector_field="vector", pks=table.column("pk").to_pylist(),
        seqs=np.arange(count, dtype=np.uint64), vectors=np.zeros((count, 2), dtype=np.float32), table=table,
    )  # fmt: skip


def table(keys: list[str]) -> pa.Table:
    vectors = pa.array([[0.25, float(i)] for i in range(len(keys))], type=pa.list_(pa.float32(), 2))
    acl = pa.array([["甲", "b"] if i % 2 else [] for i in range(len(keys))])
    return pa.table(
        {"_seq": list(range(len(keys))), "pk": keys, "vector": vectors, "acl": acl, "page": [None] * len(keys)}
    )


@pytest.mark.parametrize("chunks", [1, 3])
def test_every_row_is_what_the_engine_itself_reads(chunks: int) -> None:
    part = segment(pa.concat_tables(table([f"{chunk}-{i}" for i in range(4)]) for chunk in range(chunks)))
    rows = [lite_rows.row_to_dict(part, i) for i in range(4 * chunks)]
    assert rows == [ENGINES_OWN(part, i) for i in range(4 * chunks)]
    assert rows[1] == {"pk": "0-1", "vector": [0.25, 1.0], "acl": ["甲", "b"], "page": None}


def test_fields_that_no_schema_names_are_read_by_the_engine() -> None:
    dynamic = table(["a"]).append_column("$meta", pa.array(['{"colour": "红"}']))
    assert lite_rows.row_to_dict(segment(dynamic), 0)["colour"] == "红"


def test_the_columns_of_a_table_are_forgotten_with_it() -> None:
    part = segment(table(["a"]))
    lite_rows.row_to_dict(part, 0)
    remembered = id(part.table)
    assert remembered in lite_rows._columns
    del part
    gc.collect()
    assert remembered not in lite_rows._columns
