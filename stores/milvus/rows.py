"""Batches to rows, and rows to records and hits."""

from __future__ import annotations

from base64 import b85decode, b85encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
import orjson

from rag.core.errors import InvalidRequestError
from rag.core.filters import dump_metadata
from rag.core.records import Hit, Record, RecordBatch
from rag.core.types import Metadata, Quality, Terms, Vector, Vectors
from stores.milvus.columns import TEXT_BYTES, check_bytes, stored_fields, stored_list
from stores.milvus.keys import id_of, primary_key
from stores.milvus.schema import Table

Row = dict[str, Any]

MAX_ROWS, MAX_BYTES = 1000, 16_000_000
"""Rows and bytes of one request; a server takes 64 MiB."""
FILLER = 2**32 - 2
"""The dimension of a sparse vector that would be empty otherwise, which Milvus does not take."""
UNHELD_TERMS = frozenset({FILLER, 2**32 - 1})
"""The term ids that a sparse vector has no room for."""

_NO_PAGE = -1
_QUALITIES: Mapping[str, Quality] = {quality.value: quality for quality in Quality}


def rows_of(table: Table, batch: RecordBatch, vectors: Vectors, metadata: Sequence[Metadata]) -> list[Row]:
    """A row for each id of the batch, the last one where an id is given twice; raises ``InvalidRequestError``."""
    check_bytes("the tenant", batch.tenant)
    chosen = sorted({id: i for i, id in enumerate(batch.ids)}.values())
    with np.errstate(over="ignore"):
        kept = vectors.astype(np.float16) if table.half else vectors
    if table.half and not np.isfinite(kept).all():
        raise InvalidRequestError("a vector holds a value that is no float16")
    return [_row(table, batch, i, kept[i]) | metadata_columns(table, metadata[i]) for i in chosen]


def metadata_columns(table: Table, metadata: Metadata) -> Row:
    """The columns that follow from the metadata; raises ``InvalidRequestError`` for what they cannot hold."""
    dumped = orjson.dumps(dump_metadata(metadata)).decode()
    return {"metadata": check_bytes("the metadata", dumped), **stored_fields(table.columns, metadata)}


def requests_of(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The rows in as few requests as their number and size allow."""
    request: list[Row] = []
    size = 0
    for row in rows:
        more = _size(row)
        if request and (len(request) == MAX_ROWS or size + more > MAX_BYTES):
            yield request
            request, size = [], 0
        request.append(row)
        size += more
    if request:
        yield request


def hit_of(row: Mapping[str, Any], score: float, moments: Iterable[str]) -> Hit:
    """A hit from the columns ``HIT_COLUMNS``."""
    return Hit(
        id=id_of(row["pk"]),
        score=score,
        document=UUID(hex=row["document"]),
        generation=row["generation"],
        index=row["place"],
        text=row["body"],
        start=row["begins"],
        end=row["ends"],
        page=_page(row["page"]),
        headings=tuple(orjson.loads(row["headings"])),
        quality=_QUALITIES[row["quality"]],
        metadata=_metadata(row["metadata"], moments),
    )


def record_of(row: Mapping[str, Any], moments: Iterable[str]) -> Record:
    """A record from the columns ``RECORD_COLUMNS``."""
    return Record(
        id=id_of(row["pk"]),
        vector=vector_of(row["vector"]),
        terms=unpack_terms(row["weights"]),
        text=row["body"],
        start=row["begins"],
        end=row["ends"],
        tenant=row["tenant"],
        document=UUID(hex=row["document"]),
        generation=row["generation"],
        acl=tuple(row["acl"]),
        index=row["place"],
        page=_page(row["page"]),
        headings=tuple(orjson.loads(row["headings"])),
        quality=_QUALITIES[row["quality"]],
        metadata=_metadata(row["metadata"], moments),
    )


def vector_of(stored: Any) -> Vector:
    """A stored vector as float32; float16 comes as bytes."""
    if isinstance(stored, bytes):
        return np.frombuffer(stored, dtype=np.float16).astype(np.float32)
    return np.asarray(stored, dtype=np.float32)


def sparse(terms: Terms) -> dict[int, float]:
    """The terms as a sparse vector: without those that add nothing and those that it cannot hold."""
    return {term: float(weight) for term, weight in terms.items() if np.float32(weight) and term not in UNHELD_TERMS}


def pack_terms(terms: Terms) -> str:
    """All terms as text; raises ``InvalidRequestError`` for more than a column holds, or a weight below zero."""
    if any(weight < 0 for weight in terms.values()):
        raise InvalidRequestError("Milvus keeps no term whose weight is below zero")
    pairs = np.empty(len(terms), dtype=[("term", "<u4"), ("weight", "<f4")])
    pairs["term"] = np.fromiter(terms.keys(), dtype=np.uint32, count=len(terms))
    pairs["weight"] = np.fromiter(terms.values(), dtype=np.float32, count=len(terms))
    packed = b85encode(pairs.tobytes()).decode()
    if len(packed) > TEXT_BYTES:
        raise InvalidRequestError(f"a record has {len(terms)} terms; Milvus keeps {TEXT_BYTES // 10}")
    return packed


def unpack_terms(packed: str) -> dict[int, float]:
    """The inverse of :func:`pack_terms`."""
    pairs = np.frombuffer(b85decode(packed), dtype=[("term", "<u4"), ("weight", "<f4")])
    return dict(zip(pairs["term"].tolist(), pairs["weight"].tolist(), strict=True))


def _row(table: Table, batch: RecordBatch, i: int, vector: Vector) -> Row:
    row = {
        "pk": primary_key(batch.tenant, batch.ids[i]),
        "tenant": batch.tenant,
        "everyone": not batch.acls[i],
        "acl": stored_list("the access list", batch.acls[i]),
        "vector": vector,
        "weights": pack_terms(batch.terms[i]),
        "document": batch.documents[i].hex,
        "generation": batch.generations[i],
        "place": batch.indexes[i],
        "body": check_bytes("a text", batch.texts[i]),
        "begins": batch.starts[i],
        "ends": batch.ends[i],
        "page": _NO_PAGE if batch.pages[i] is None else batch.pages[i],
        "headings": check_bytes("the headings", orjson.dumps(list(batch.headings[i])).decode()),
        "quality": batch.qualities[i].value,
    }
    return row | {"terms": sparse(batch.terms[i]) or {FILLER: 1.0}} if table.engine.sparse else row


def _size(row: Row) -> int:
    """Bytes that a row takes in a request, more or less."""
    texts = (each for value in row.values() for each in (value if isinstance(value, list) else [value]))
    text = sum(len(each.encode()) + 4 for each in texts if isinstance(each, str))
    return int(text + memoryview(row["vector"]).nbytes + 8 * len(row.get("terms", ())) + 8 * len(row))


def _page(stored: int) -> int | None:
    return None if stored == _NO_PAGE else stored


def _metadata(stored: str, moments: Iterable[str]) -> Metadata:
    metadata: dict[str, Any] = orjson.loads(stored)
    found = {key: datetime.fromisoformat(metadata[key]) for key in moments if metadata.get(key) is not None}
    return metadata | found
