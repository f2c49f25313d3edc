"""Records in the exact order of their ids, streamed from points whose ids order as the first half of theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

from rag.core.records import CollectionSpec, Record
from stores.qdrant.engine import Condition, Engine
from stores.qdrant.points import record_of


async def ordered_records(
    engine: Engine, collection: str, spec: CollectionSpec, condition: Condition, batch_size: int
) -> AsyncIterator[list[Record]]:
    """Batches of ``batch_size``, the last one smaller; none is empty."""
    waiting: list[Record] = []
    async for group in _groups(engine, collection, spec, condition, batch_size):
        waiting += group
        while len(waiting) >= batch_size:
            yield waiting[:batch_size]
            waiting = waiting[batch_size:]
    if waiting:
        yield waiting


async def _groups(
    engine: Engine, collection: str, spec: CollectionSpec, condition: Condition, page: int
) -> AsyncIterator[list[Record]]:
    """Sorted records; those with the same first half of the id come in one group, as points do not order them."""
    held: list[Record] = []
    after: UUID | None = None
    while True:
        found, after = await engine.scroll(collection, condition, after=after, limit=page)
        held += [record_of(spec, point) for point in found]
        if after is None:
            break
        last = _half(held[-1].id) if held else b""
        complete = [record for record in held if _half(record.id) != last]
        held = held[len(complete) :]
        yield sorted(complete, key=lambda record: record.id)
    yield sorted(held, key=lambda record: record.id)


def _half(id: UUID) -> bytes:
    return id.bytes[:8]
