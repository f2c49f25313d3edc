"""Rows to hits and records, and batches to rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from pgvector import HalfVector

from rag.core.filters import dump_metadata
from rag.core.records import Hit, Record, RecordBatch
from rag.core.types import Metadata, Quality, Vectors
from stores.pgvector.connection import Row
from stores.pgvector.filters import string_keys
from stores.pgvector.lexical import pack_terms, signed, unpack_terms
from stores.pgvector.tables import HIT_COLUMNS, Tables

_QUALITIES: Mapping[str, Quality] = {quality.value: quality for quality in Quality}


def hit_of(row: Row, score: float, moments: Iterable[str]) -> Hit:
    """A hit from the columns ``HIT_COLUMNS``."""
    id, document, generation, index, text, start, end, page, headings, quality, metadata = row[: len(HIT_COLUMNS)]
    return Hit(
        id=id,
        score=score,
        document=document,
        generation=generation,
        index=index,
        text=text,
        start=start,
        end=end,
        page=page,
        headings=tuple(headings),
        quality=_QUALITIES[quality],
        metadata=_with_moments(metadata, moments),
    )


def record_of(row: Row, moments: Iterable[str]) -> Record:
    """A record from the columns ``RECORD_COLUMNS``, ``terms`` and the parts of the weights."""
    id, document, generation, index, text, start, end, page, headings, quality, metadata, *rest = row
    tenant, acl, embedding, terms, *parts = rest
    return Record(
        id=id,
        vector=embedding.to_numpy().astype(np.float32, copy=False),
        terms=unpack_terms(terms, parts),
        text=text,
        start=start,
        end=end,
        tenant=tenant,
        document=document,
        generation=generation,
        acl=tuple(acl),
        index=index,
        page=page,
        headings=tuple(headings),
        quality=_QUALITIES[quality],
        metadata=_with_moments(metadata, moments),
    )


def record_rows(tables: Tables, batch: RecordBatch, vectors: Vectors, metadata: Sequence[Metadata]) -> list[Row]:
    """A row of ``RECORD_COLUMNS`` and the fields' columns for each id; of an id given twice the last one counts."""
    return [
        (
            batch.ids[i],
            batch.documents[i],
            batch.generations[i],
            batch.indexes[i],
            batch.texts[i],
            batch.starts[i],
            batch.ends[i],
            batch.pages[i],
            list(batch.headings[i]),
            batch.qualities[i].value,
            dump_metadata(metadata[i]),
            batch.tenant,
            list(batch.acls[i]),
            HalfVector(vectors[i]) if tables.halved else vectors[i],
            *field_values(tables, metadata[i]),
        )
        for i in _last_of_each(batch)
    ]


def term_rows(batch: RecordBatch) -> list[Row]:
    """A row of ``TERM_COLUMNS`` for each id."""
    return [
        (
            batch.ids[i],
            batch.tenant,
            list(batch.acls[i]),
            signed(sorted(batch.terms[i])),
            *pack_terms(batch.terms[i]),
        )
        for i in _last_of_each(batch)
    ]


def field_values(tables: Tables, metadata: Metadata) -> list[Any]:
    """The values of the filterable fields' columns."""
    values: list[Any] = []
    for key, column in tables.columns.items():
        value: Any = metadata.get(key)
        values.append(value)
        if column.keys in tables.field_columns:
            values.append(None if value is None else string_keys(value))
    return values


def _last_of_each(batch: RecordBatch) -> list[int]:
    return sorted({id: i for i, id in enumerate(batch.ids)}.values(), key=lambda i: batch.ids[i])


def _with_moments(metadata: dict[str, Any], moments: Iterable[str]) -> Metadata:
    if not metadata or not moments:
        return metadata
    found = {key: datetime.fromisoformat(metadata[key]) for key in moments if metadata.get(key) is not None}
    return metadata | found if found else metadata
