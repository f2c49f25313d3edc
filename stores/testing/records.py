"""Records to test with, and what "equal" and "refused" mean."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

import numpy as np
import pytest

from rag.core.errors import AnchorageError
from rag.core.ports import VectorStore
from rag.core.records import CollectionSpec, Hit, Metric, Quantization, Record, RecordBatch, record_id
from rag.core.types import FieldType, Scope, Vector, Vectors
from stores.memory import MemoryStore

TENANT = "acme"
SCOPE = Scope(tenant=TENANT)
DIMENSION = 8
MOMENT = datetime(2026, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)
FIELDS = {
    "language": FieldType.STRING,
    "year": FieldType.INTEGER,
    "price": FieldType.FLOAT,
    "public": FieldType.BOOLEAN,
    "created": FieldType.DATETIME,
    "tags": FieldType.STRINGS,
}
_NAMESPACE = UUID("0d4bb6c0-8f0e-4d1a-9a53-3c1a1f0e7a10")


def spec_of(
    *,
    dimension: int = DIMENSION,
    metric: Metric = Metric.COSINE,
    filterable: dict[str, FieldType] | None = None,
    quantization: Quantization = Quantization.NONE,
) -> CollectionSpec:
    """A collection with the fields of ``FIELDS`` unless others are given."""
    fields = FIELDS if filterable is None else filterable
    return CollectionSpec(dimension=dimension, metric=metric, filterable=fields, quantization=quantization)


def document_of(name: str) -> UUID:
    """The id of the document called ``name``."""
    return uuid5(_NAMESPACE, name)


def record(number: int, *, tenant: str = TENANT, document: str = "manual", generation: int = 1, **given: Any) -> Record:
    """The record ``number`` of a document: repeatable, and different from every other in vector, terms and text."""
    rng = np.random.default_rng([number, generation])
    defaults: dict[str, Any] = {
        "id": record_id(
            tenant=tenant, collection="tests", document=document_of(document), generation=generation, index=number
        ),
        "vector": rng.standard_normal(DIMENSION).astype(np.float32),
        "terms": {7: 0.5, 1000 + number: 1.25},
        "text": f"Paragraph {number} of the {document}. 第{number}段",
        "start": number * 100,
        "end": number * 100 + 30,
        "index": number,
    }
    return Record(tenant=tenant, document=document_of(document), generation=generation, **(defaults | given))


def records(count: int, **given: Any) -> list[Record]:
    """The records 0 to ``count - 1``."""
    return [record(number, **given) for number in range(count)]


def clustered(count: int, *, dimension: int, seed: int = 0) -> Vectors:
    """Random rows around a few hundred centres, as embeddings lie; shape ``(count, dimension)``."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, count // 20), dimension))
    rows = centres[rng.integers(0, len(centres), count)] + 0.4 * rng.standard_normal((count, dimension))
    return rows.astype(np.float32)


def vector(*values: float) -> Vector:
    """A vector of ``DIMENSION`` that starts with ``values`` and is zero after them."""
    return np.array([*values, *[0.0] * (DIMENSION - len(values))], dtype=np.float32)


def same(left: Record, right: Record) -> bool:
    """Whether two records are equal, weights at single precision."""
    return _plain(left) == _plain(right) and bool(np.array_equal(left.vector, right.vector))


def assert_same_ranking(found: Sequence[Hit], expected: Sequence[Hit], *, tolerance: float = 1e-4) -> None:
    """The same scores in the same places; ids may differ only where scores do not."""
    assert len(found) == len(expected)
    assert np.allclose([hit.score for hit in found], [hit.score for hit in expected], atol=tolerance)
    scores = {hit.id: hit.score for hit in expected}
    last = expected[-1].score if expected else 0.0
    for hit in found:
        assert abs(scores.get(hit.id, last) - hit.score) <= tolerance
    assert list(found) == sorted(found, key=lambda hit: (-hit.score, hit.id))


async def assert_refused(call: Awaitable[Any], error: type[AnchorageError], case: object) -> AnchorageError:
    """The error, of the kind ``error``, with which ``call`` is refused; ``case`` says what was called."""
    try:
        answer = await call
    except error as exc:
        return exc
    except Exception as exc:
        exc.add_note(f"where {case!r} was to be refused by {error.__name__}")
        raise
    pytest.fail(f"{case!r} is not refused, but answered by {answer!r}")


async def everything(store: VectorStore, collection: str, scope: Scope = SCOPE) -> list[Record]:
    """All records that the scope may see, by id."""
    return [one async for batch in store.scroll(collection, scope) for one in batch]


def _plain(one: Record) -> tuple[Any, ...]:
    terms = {term: float(np.float32(weight)) for term, weight in one.terms.items()}
    metadata = {key: list(value) if isinstance(value, tuple) else value for key, value in one.metadata.items()}
    place = (one.id, one.tenant, one.document, one.generation, one.acl, one.index)
    return (*place, one.text, one.start, one.end, one.page, one.headings, one.quality, terms, metadata)


async def write(store: VectorStore, collection: str, rows: Sequence[Record]) -> None:
    """Upsert the rows, a batch a tenant."""
    for tenant in sorted({row.tenant for row in rows}):
        mine = [row for row in rows if row.tenant == tenant]
        await store.upsert(collection, Scope(tenant=tenant), RecordBatch.of(mine))


async def oracle(rows: Sequence[Record], spec: CollectionSpec | None = None) -> MemoryStore:
    """The exact store with the same rows, in the collection ``oracle``."""
    memory = MemoryStore()
    await memory.create_collection("oracle", spec or spec_of())
    await write(memory, "oracle", rows)
    return memory
