"""The names and columns of one physical collection's two tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rag.core.records import CollectionSpec, Metric, Quantization
from rag.core.types import FieldType
from stores.pgvector.filters import Column, columns

HIT_COLUMNS = (
    "id", "document", "generation", "place", "body", "begins", "ends", "page", "headings", "quality", "metadata",
)  # fmt: skip
RECORD_COLUMNS = (*HIT_COLUMNS, "tenant", "acl", "embedding")
_RECORD_TYPES = (
    "uuid", "uuid", "int8", "int4", "text", "int8", "int8", "int4", "text[]", "text", "json", "text", "text[]",
)  # fmt: skip
PART_SIZE = 10**9
"""Dimensions that one ``sparsevec`` may have; five of them cover the unsigned 32-bit term ids."""
PARTS = tuple(f"weights{part}" for part in range(-(-(2**32) // PART_SIZE)))
TERM_COLUMNS = ("id", "tenant", "acl", "terms", *PARTS)
TERM_TYPES = ("uuid", "text", "text[]", "int4[]", *("sparsevec" for _ in PARTS))
DISTANCES: Mapping[Metric, str] = {Metric.COSINE: "<=>", Metric.DOT: "<#>", Metric.L2: "<->"}
_OPERATORS: Mapping[Metric, str] = {Metric.COSINE: "cosine_ops", Metric.DOT: "ip_ops", Metric.L2: "l2_ops"}


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Where a collection lies. Names are made of checked parts only, so they are safe inside SQL."""

    schema: str
    collection: str
    spec: CollectionSpec

    @property
    def records(self) -> str:
        """The table of records."""
        return f'"{self.schema}"."r_{self.collection}"'

    @property
    def terms(self) -> str:
        """The table of lexical postings."""
        return f'"{self.schema}"."t_{self.collection}"'

    @property
    def registry(self) -> str:
        """The table of all collections' specs."""
        return registry(self.schema)

    @property
    def halved(self) -> bool:
        """Whether vectors are kept in half precision."""
        return self.spec.quantization is Quantization.HALF

    @property
    def vector_type(self) -> str:
        """The vectors' type in pgvector."""
        return "halfvec" if self.halved else "vector"

    @property
    def vector_bytes(self) -> int:
        """Bytes a dimension."""
        return 2 if self.halved else 4

    @property
    def record_types(self) -> tuple[str, ...]:
        """Types of ``RECORD_COLUMNS``."""
        return (*_RECORD_TYPES, self.vector_type)

    @property
    def operator_class(self) -> str:
        """What the vector index is built with."""
        return f"{self.vector_type}_{_OPERATORS[self.spec.metric]}"

    @property
    def distance(self) -> str:
        """The distance of a row's vector from the parameter ``vector``, which is of single precision."""
        return f"embedding {DISTANCES[self.spec.metric]} %(vector)s" + ("::halfvec" if self.halved else "")

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The filterable fields' columns."""
        return columns(self.spec.filterable)

    @cached_property
    def moments(self) -> tuple[str, ...]:
        """Fields whose values are datetimes."""
        return tuple(key for key, kind in self.spec.filterable.items() if kind is FieldType.DATETIME)

    @cached_property
    def field_columns(self) -> tuple[str, ...]:
        """Names of the filterable fields' columns, checksums included."""
        return tuple(name for column in self.columns.values() for name, _ in column_types(column))

    @cached_property
    def field_types(self) -> tuple[str, ...]:
        """Types of :attr:`field_columns`."""
        return tuple(kind for column in self.columns.values() for _, kind in column_types(column))


def registry(schema: str) -> str:
    """The table that keeps each collection's spec."""
    return f'"{schema}"."collections"'


def column_types(column: Column) -> list[tuple[str, str]]:
    """The column a field takes, and that of its checksums where it is a list."""
    pair = [(column.name, column.sql_type)]
    return [*pair, (column.keys, "int4[]")] if column.type is FieldType.STRINGS else pair
