"""The columns and indexes of a collection, and where its spec is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
from pymilvus import CollectionSchema, DataType, FieldSchema

from rag.core.errors import InvalidRequestError, StoreError
from rag.core.records import CollectionSpec, Metric, Quantization
from rag.core.types import FieldType
from stores.milvus.columns import MEMBERS, TEXT_BYTES, Column, columns_of
from stores.milvus.engine import Engine
from stores.milvus.keys import KEY_LENGTH

METRICS: Mapping[Metric, str] = {Metric.COSINE: "COSINE", Metric.DOT: "IP", Metric.L2: "L2"}
HIT_COLUMNS = (
    "pk", "document", "generation", "place", "body", "begins", "ends", "page", "headings", "quality", "metadata",
)  # fmt: skip
RECORD_COLUMNS = (*HIT_COLUMNS, "tenant", "acl", "weights", "vector")
MAX_COLUMNS = 64
SPEC_PROPERTY = "anchorage.spec"

_TYPES: Mapping[FieldType, DataType] = {
    FieldType.STRING: DataType.VARCHAR,
    FieldType.STRINGS: DataType.ARRAY,
    FieldType.BOOLEAN: DataType.INT8,
    FieldType.DATETIME: DataType.INT64,
    FieldType.INTEGER: DataType.INT64,
    FieldType.FLOAT: DataType.DOUBLE,
}
_VARCHARS = ("document", "body", "headings", "quality", "metadata", "weights")
_INT64S = ("generation", "place", "begins", "ends", "page")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A collection as an engine keeps it."""

    name: str
    engine: Engine
    spec: CollectionSpec

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The filterable fields' columns."""
        return columns_of(self.spec.filterable)

    @cached_property
    def moments(self) -> tuple[str, ...]:
        """Fields whose values are datetimes."""
        return tuple(key for key, kind in self.spec.filterable.items() if kind is FieldType.DATETIME)

    @property
    def half(self) -> bool:
        """Whether vectors are kept as float16."""
        return self.spec.quantization is Quantization.HALF

    @property
    def metric_type(self) -> str:
        """What the engine calls the metric."""
        return METRICS[self.spec.metric]

    def schema(self) -> CollectionSchema:
        """Its columns; raises ``InvalidRequestError`` for more filterable fields than there is room for."""
        fields = list(self._fields())
        if len(fields) > MAX_COLUMNS:
            over = f"{len(fields) - MAX_COLUMNS} columns too many: numbers take two, others one"
            raise InvalidRequestError(f"Milvus has no room for so many filterable fields ({over})")
        return CollectionSchema(fields, description=self.description, enable_dynamic_field=False)

    @property
    def description(self) -> str:
        """The spec as it is kept with the collection."""
        return orjson.dumps(self.spec.to_json(), option=orjson.OPT_SORT_KEYS).decode()

    def indexes(self) -> dict[str, dict[str, Any]]:
        """The indexes by the column that each is on."""
        kind = "HNSW_SQ" if self.spec.quantization is Quantization.INT8 else "HNSW"
        parameters: dict[str, Any] = {"M": self.spec.index.m, "efConstruction": self.spec.index.ef_construction}
        if kind == "HNSW_SQ":
            parameters["sq_type"] = "SQ8"
        dense = {"index_type": kind, "metric_type": self.metric_type, "params": parameters}
        sparse = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP", "params": {}}
        return {"vector": dense, **({"terms": sparse} if self.engine.sparse else {})}

    def _fields(self) -> Iterator[FieldSchema]:
        yield FieldSchema("pk", DataType.VARCHAR, is_primary=True, max_length=KEY_LENGTH)
        yield _text("tenant", is_partition_key=self.engine.partition_keys)
        yield FieldSchema("everyone", DataType.BOOL)
        yield _texts("acl")
        kind = DataType.FLOAT16_VECTOR if self.half else DataType.FLOAT_VECTOR
        yield FieldSchema("vector", kind, dim=self.spec.dimension)
        if self.engine.sparse:
            yield FieldSchema("terms", DataType.SPARSE_FLOAT_VECTOR)
        yield from (_text(name) for name in _VARCHARS)
        yield from (FieldSchema(name, DataType.INT64) for name in _INT64S)
        for column in self.columns.values():
            yield _field(column)
            if column.flag:
                yield FieldSchema(column.flag, DataType.BOOL)


def stored_spec(described: Mapping[str, Any]) -> CollectionSpec:
    """The spec in what the engine says of a collection; raises ``StoreError`` for one that is not the store's."""
    stored = (described.get("properties") or {}).get(SPEC_PROPERTY) or described.get("description")
    try:
        return CollectionSpec.from_json(orjson.loads(stored or ""))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise StoreError(f"the collection {described.get('collection_name')} was made by something else") from None


def _text(name: str, **options: Any) -> FieldSchema:
    return FieldSchema(name, DataType.VARCHAR, max_length=TEXT_BYTES, **options)


def _texts(name: str) -> FieldSchema:
    return FieldSchema(name, DataType.ARRAY, element_type=DataType.VARCHAR, max_capacity=MEMBERS, max_length=TEXT_BYTES)


def _field(column: Column) -> FieldSchema:
    match column.type:
        case FieldType.STRING:
            return _text(column.name)
        case FieldType.STRINGS:
            return _texts(column.name)
        case _:
            return FieldSchema(column.name, _TYPES[column.type])
