"""An immutable snapshot of one collection's records, and what of it a caller may see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from rag.core.filters import matches
from rag.core.ports import Selector
from rag.core.records import ByDocument, ByIds, CollectionSpec, Record, RecordBatch
from rag.core.types import Metadata, Scope, Vectors


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The records of a collection at one moment, by tenant and id."""

    spec: CollectionSpec
    records: Mapping[tuple[str, UUID], Record] = field(default_factory=dict)

    @cached_property
    def ordered(self) -> list[Record]:
        """The records by id."""
        return sorted(self.records.values(), key=lambda record: record.id)

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """Vectors of ``ordered``, shape ``(n, dimension)``."""
        vectors = [record.vector for record in self.ordered]
        return np.asarray(vectors, dtype=np.float64).reshape(len(vectors), self.spec.dimension)

    def with_records(self, records: Iterable[Record]) -> Rows:
        """The snapshot after ``records`` were written or replaced by id."""
        return replace(self, records={**self.records, **{(record.tenant, record.id): record for record in records}})

    def without(self, records: Iterable[Record]) -> Rows:
        """The snapshot without ``records``; what has replaced one of them since stays."""
        gone = {(record.tenant, record.id): record for record in records}
        return replace(
            self, records={key: record for key, record in self.records.items() if gone.get(key) is not record}
        )


def rows_of(batch: RecordBatch, vectors: Vectors, metadata: Sequence[Metadata]) -> list[Record]:
    """The batch as records that share nothing with the caller's arrays."""
    return [
        Record(
            id=batch.ids[i],
            vector=vectors[i].copy(),
            terms=dict(batch.terms[i]),
            text=batch.texts[i],
            start=batch.starts[i],
            end=batch.ends[i],
            tenant=batch.tenant,
            document=batch.documents[i],
            generation=batch.generations[i],
            acl=tuple(batch.acls[i]),
            index=batch.indexes[i],
            page=batch.pages[i],
            headings=tuple(batch.headings[i]),
            quality=batch.qualities[i],
            metadata=metadata[i],
        )
        for i in range(len(batch))
    ]


def selects(record: Record, scope: Scope, selector: Selector | None) -> bool:
    """Whether the scope may see the record and the selector names it."""
    if record.tenant != scope.tenant or not _readable(record, scope):
        return False
    match selector:
        case None:
            return True
        case ByIds(ids=ids):
            return record.id in ids
        case ByDocument(document=document, generation=generation):
            return record.document == document and generation in (None, record.generation)
        case _:
            return matches(selector, record.metadata)


def _readable(record: Record, scope: Scope) -> bool:
    return scope.groups is None or not record.acl or not scope.groups.isdisjoint(record.acl)
