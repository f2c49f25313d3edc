"""Where documents are kept: the catalog's Postgres, the blobs, the vector store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.blobs import open_blobs
from rag.catalog import Catalog, open_catalog
from rag.catalog.embedded import attach_or_own
from rag.core.catalog import BacklogLimits, PromotionPolicy
from rag.core.errors import AnchorageError
from rag.core.ports import Blobs, VectorStore
from rag.maintenance import confirm_store, require_store_of
from rag.settings import Settings
from rag.wiring.store_identity import store_of, write_note
from stores.measured import MeasuredStore
from stores.registry import open_store

_POSTGRES_RETRY_SECONDS = 1.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where documents are kept: what the API and the ingest worker share."""

    catalog: Catalog
    blobs: Blobs
    store: VectorStore


@asynccontextmanager
async def open_postgres(settings: Settings) -> AsyncIterator[str]:
    """The URL of the catalog's Postgres: the configured one, else the embedded one, kept running meanwhile.

    Raises ``ConfigurationError`` or ``CatalogError`` when the embedded one cannot be had.
    """
    if settings.catalog.url is not None:
        yield settings.catalog.url.get_secret_value()
        return
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    keeper = asyncio.create_task(_keep_postgres(settings.data_dir, url), name="embedded postgres")
    try:
        watched: set[asyncio.Future[Any]] = {keeper, url}
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if not url.done():
            keeper.result()
        yield url.result()
    finally:
        keeper.cancel()
        await asyncio.wait({keeper})


async def _keep_postgres(data_dir: Path, url: asyncio.Future[str]) -> None:
    """Own or attach; when the owner goes, take over, at the same address."""
    while True:
        try:
            async with attach_or_own(data_dir) as server:
                if not url.done():
                    url.set_result(server.url)
                await server.watch()
        except (AnchorageError, OSError):
            if not url.done():
                raise
            _logger.exception("no embedded Postgres", extra={"action": "postgres_lost"})
            await asyncio.sleep(_POSTGRES_RETRY_SECONDS)


@asynccontextmanager
async def open_catalog_for(settings: Settings) -> AsyncIterator[Catalog]:
    """The catalog of these settings."""
    async with open_postgres(settings) as url, _open_catalog(settings, url) as catalog:
        yield catalog


def _open_catalog(settings: Settings, url: str) -> AbstractAsyncContextManager[Catalog]:
    return open_catalog(
        url,
        pool_size=settings.catalog.pool_size,
        timeout=settings.catalog.timeout,
        max_attempts=settings.ingest.max_attempts,
        promotion=PromotionPolicy(pause=settings.ingest.promotion_pause, attempts=settings.ingest.promotion_attempts),
        backlog=BacklogLimits(documents=settings.ingest.queued_documents, bytes=settings.ingest.queued_bytes),
    )


@asynccontextmanager
async def open_storage(settings: Settings, *, moving: bool = False) -> AsyncIterator[Storage]:
    """Catalog, blobs and vector store; an embedded store's process is shared by all that open it here.

    Raises ``StoreChangedError`` when the collections are indexed in another store, unless they are ``moving``.
    """
    configured = store_of(settings)
    async with open_postgres(settings) as url, _open_catalog(settings, url) as catalog:
        opening = open_store(settings.store.kind, settings.store_options(catalog_url=url))
        require_store_of(None if moving else await catalog.noted_store(), configured)
        async with open_blobs(settings.data_dir / "blobs") as blobs, opening as store:
            if not moving:
                await confirm_store(catalog, store, configured)
                await asyncio.to_thread(write_note, settings, configured)
            yield Storage(catalog=catalog, blobs=blobs, store=MeasuredStore(store))
