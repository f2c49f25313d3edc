"""Records as points, and points as records and hits.

A point's id orders as its record's: the first half is the record id's first half, the second a digest of tenant
and whole id, so that the same record id of two tenants makes two points.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

import numpy as np
import orjson

from rag.core.filters import dump_metadata
from rag.core.records import CollectionSpec, Hit, Metric, Record, RecordBatch
from rag.core.types import FieldType, Metadata, Quality, Vector, Vectors
from stores.qdrant import fields
from stores.qdrant.engine import Found, Points, Scored
from stores.validation import check_vectors

EVERYONE = "*"
HIT_KEYS = ("id", "document", "generation", "text", "place", "metadata")
_UNIT = 1e-6
"""How far from one the squared length of a vector may be that counts as normalised."""


def point_id(tenant: str, record: UUID) -> UUID:
    """The id of the point that keeps the tenant's record."""
    digest = blake2b(tenant.encode() + b"\0" + record.bytes, digest_size=8).digest()
    return UUID(bytes=record.bytes[:8] + digest)


def readers(groups: Iterable[str]) -> set[str]:
    """How groups are named in the payload, apart from ``EVERYONE``."""
    return {f"={group}" for group in groups}


def points_of(spec: CollectionSpec, batch: RecordBatch, vectors: Vectors, metadata: Sequence[Metadata]) -> Points:
    """The batch as points; of an id given twice the last one counts."""
    rows = sorted({id: i for i, id in enumerate(batch.ids)}.values())
    searched, changed = _searched(spec, vectors)
    payloads = [_payload(spec, batch, i, metadata[i]) for i in rows]
    for payload, i in zip(payloads, rows, strict=True):
        if changed[i]:
            payload["vector"] = b64encode(vectors[i].tobytes()).decode()
    return Points(
        ids=[point_id(batch.tenant, batch.ids[i]) for i in rows],
        vectors=searched[rows],
        terms=[batch.terms[i] for i in rows],
        payloads=payloads,
    )


def metadata_payload(spec: CollectionSpec, metadata: Metadata) -> dict[str, Any]:
    """The keys of the payload that hold the user's metadata."""
    return {
        "metadata": orjson.dumps(dump_metadata(metadata)).decode(),
        "f": fields.kept(spec.filterable, metadata),
    }


def query_vectors(spec: CollectionSpec, vectors: Vectors) -> Vectors:
    """Query vectors, checked, as they are compared: of length one under cosine. Raises as ``check_vectors``."""
    return _searched(spec, check_vectors(spec, vectors))[0]


def query_vector(spec: CollectionSpec, vector: Vector) -> Vector:
    """One query vector, as :func:`query_vectors`; one of length one, as embedders give them, is taken as it is."""
    given: Vector = np.asarray(vector)
    # No sum of squares near one holds a NaN or an infinity, so nothing is left to be checked.
    if given.dtype == np.float32 and given.shape == (spec.dimension,) and abs(float(given.dot(given)) - 1.0) <= _UNIT:
        return given
    return query_vectors(spec, np.asarray(given, dtype=np.float32).reshape(1, -1)).reshape(-1)


def record_of(spec: CollectionSpec, found: Found) -> Record:
    """The record that a point with its vectors keeps."""
    payload = found.payload
    index, start, end, page, headings, quality = orjson.loads(payload["place"])
    return Record(
        id=UUID(payload["id"]),
        vector=_original(found),
        terms=found.terms,
        text=payload["text"],
        start=start,
        end=end,
        tenant=payload["tenant"],
        document=UUID(payload["document"]),
        generation=payload["generation"],
        acl=_acl(payload["acl"]),
        index=index,
        page=page,
        headings=tuple(headings),
        quality=Quality(quality),
        metadata=_with_moments(_moments(spec.filterable), orjson.loads(payload["metadata"])),
    )


def hits_of(spec: CollectionSpec, scored: Sequence[Scored]) -> list[Hit]:
    """The hits from scores and payloads of ``HIT_KEYS``."""
    places = _parsed(payload["place"] for _, payload in scored)
    metadata = _parsed(payload["metadata"] for _, payload in scored)
    moments = _moments(spec.filterable)
    return [
        Hit(
            id=UUID(payload["id"]),
            score=score,
            document=UUID(payload["document"]),
            generation=payload["generation"],
            index=index,
            text=payload["text"],
            start=start,
            end=end,
            page=page,
            headings=tuple(headings),
            quality=Quality(quality),
            metadata=_with_moments(moments, values) if moments else values,
        )
        for (score, payload), (index, start, end, page, headings, quality), values in zip(
            scored, places, metadata, strict=True
        )
    ]


def _payload(spec: CollectionSpec, batch: RecordBatch, i: int, metadata: Metadata) -> dict[str, Any]:
    place = [batch.indexes[i], batch.starts[i], batch.ends[i], batch.pages[i], list(batch.headings[i])]
    return {
        "tenant": batch.tenant,
        "acl": [f"={group}" for group in batch.acls[i]] or [EVERYONE],
        "document": str(batch.documents[i]),
        "generation": batch.generations[i],
        "id": str(batch.ids[i]),
        "text": batch.texts[i],
        "place": orjson.dumps([*place, batch.qualities[i].value]).decode(),
    } | metadata_payload(spec, metadata)


def _searched(spec: CollectionSpec, vectors: Vectors) -> tuple[Vectors, Sequence[bool]]:
    """The vectors that are compared, by dot product under cosine, and which of them are not the caller's own."""
    if spec.metric is not Metric.COSINE:
        return vectors, [False] * len(vectors)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    changed = np.abs(lengths**2 - 1.0) > _UNIT
    divided = vectors / np.where(changed, lengths, 1.0)[:, np.newaxis]
    return np.ascontiguousarray(divided, dtype=np.float32), changed.tolist()


def _original(found: Found) -> Vector:
    if kept := found.payload.get("vector"):
        return np.frombuffer(b64decode(kept), dtype=np.float32)
    return np.asarray(found.vector, dtype=np.float32)


def _acl(stored: Collection[str]) -> tuple[str, ...]:
    return tuple(reader[1:] for reader in stored if reader != EVERYONE)


def _parsed(stored: Iterable[str]) -> list[Any]:
    """The values of JSON texts, read at once."""
    values: list[Any] = orjson.loads(f"[{','.join(stored)}]")
    return values


def _with_moments(moments: Sequence[str], metadata: dict[str, Any]) -> Metadata:
    found = {key: datetime.fromisoformat(metadata[key]) for key in moments if metadata.get(key) is not None}
    return metadata | found if found else metadata


def _moments(filterable: Mapping[str, FieldType]) -> list[str]:
    return [name for name, kind in filterable.items() if kind is FieldType.DATETIME]
