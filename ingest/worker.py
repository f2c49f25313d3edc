"""The ingest worker: takes jobs from the catalog's queue and has them processed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias
from uuid import UUID

INGEST_DOCUMENT = "ingest_document"
PROMOTE_DOCUMENT = "promote_document"
SWEEP = "sweep"
ALIGN_METADATA = "align_metadata"

Handlers: TypeAlias = Mapping[str, Callable[..., Awaitable[None]]]


class JobQueue(Protocol):
    """The running side of the catalog's queue."""

    async def run(
        self,
        handlers: Handlers,
        *,
        concurrency: int,
        promotions: int,
        stop_event: asyncio.Event,
        grace: float,
        stalled_after: float,
    ) -> None:
        """Run jobs until ``stop_event``; then take no more, wait ``grace`` seconds, give the rest back."""
        ...


class DocumentPipeline(Protocol):
    """What a document's jobs run."""

    async def process(self, tenant: str, document: UUID) -> None:
        """Process a document if there is something to do."""
        ...

    async def promote(self, tenant: str, document: UUID) -> None:
        """Parse a degraded document in full, if that is due."""
        ...


async def run_worker(
    queue: JobQueue,
    pipeline: DocumentPipeline,
    sweep: Callable[[], Awaitable[object]],
    align: Callable[[str, UUID], Awaitable[None]],
    *,
    concurrency: int,
    promotions: int = 1,
    stop: asyncio.Event,
    grace: float,
    stalled_after: float,
) -> None:
    """Run jobs until ``stop`` is set, ``concurrency`` at a time and ``promotions`` beside them.

    Jobs of workers that gave no sign for ``stalled_after`` seconds are taken over. Garbage is swept by jobs of the
    queue too, and ``align`` writes a document's metadata from the catalog to the store. After ``stop`` the running
    ones have ``grace`` seconds; then they are cancelled and wait again.
    """

    async def ingest_document(tenant: str, document: str) -> None:
        await pipeline.process(tenant, UUID(document))

    async def promote_document(tenant: str, document: str) -> None:
        await pipeline.promote(tenant, UUID(document))

    async def sweep_garbage() -> None:
        await sweep()

    async def align_metadata(tenant: str, document: str) -> None:
        await align(tenant, UUID(document))

    await queue.run(
        {
            INGEST_DOCUMENT: ingest_document,
            PROMOTE_DOCUMENT: promote_document,
            SWEEP: sweep_garbage,
            ALIGN_METADATA: align_metadata,
        },
        concurrency=concurrency,
        promotions=promotions,
        stop_event=stop,
        grace=grace,
        stalled_after=stalled_after,
    )
