"""Tenants share the worker, whatever one of them has waiting; what waits is bounded."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rag.catalog import Catalog, open_catalog
from rag.core.catalog import BacklogLimits, BlobRef
from rag.core.errors import BacklogFullError, EmbeddingError
from rag.core.records import CollectionSpec
from rag.core.types import Scope


async def fill(catalog: Catalog, tenant: str, count: int, *, blob: Callable[[str], BlobRef]) -> None:
    scope = Scope(tenant=tenant, groups=None)
    await catalog.create_collection(scope, "papers", embedding_model="e5", spec=CollectionSpec(dimension=3))
    for number in range(count):
        await catalog.create_document(
            scope, "papers", source=f"{number}.txt", blob=blob(f"{number}"), media_type="text/plain", metadata={}
        )


async def taken(catalog: Catalog, count: int, until: Callable[..., Any]) -> list[str]:
    """The tenants of the first ``count`` jobs that a worker takes, one at a time."""
    seen: list[str] = []
    stop = asyncio.Event()

    async def ingest(tenant: str, document: str) -> None:
        seen.append(tenant)

    async def nothing(**_: str) -> None:
        return

    async def enough() -> object:
        return len(seen) >= count

    handlers = {"ingest_document": ingest, "sweep": nothing, "align_metadata": nothing}
    running = asyncio.create_task(catalog.queue.run(handlers, concurrency=1, stop_event=stop, upkeep_every=60.0))
    await until(enough)
    stop.set()
    await asyncio.wait_for(running, 30)
    return seen[:count]


async def test_one_document_of_a_tenant_is_taken_early_among_five_hundred_of_another(
    catalog: Catalog, blob: Callable[[str], BlobRef], until: Callable[..., Any]
) -> None:
    await fill(catalog, "busy", 500, blob=blob)
    await fill(catalog, "small", 1, blob=blob)

    seen = await taken(catalog, 6, until)

    assert "small" in seen[:3]
    assert seen.count("busy") == 5


async def test_tenants_with_much_waiting_are_served_in_turn(
    catalog: Catalog, blob: Callable[[str], BlobRef], until: Callable[..., Any]
) -> None:
    for tenant in ("a", "b", "c"):
        await fill(catalog, tenant, 20, blob=blob)

    seen = await taken(catalog, 30, until)

    counts = Counter(seen)
    assert max(counts.values()) - min(counts.values()) <= 3


async def test_a_retry_brings_a_job_that_waits_after_an_outage_forward(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], until: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id
    failed = asyncio.Event()
    stop = asyncio.Event()

    async def unavailable(tenant: str, document: str) -> None:
        failed.set()
        raise EmbeddingError

    running = asyncio.create_task(
        catalog.queue.run({"ingest_document": unavailable}, concurrency=1, stop_event=stop, upkeep_every=60.0)
    )
    await asyncio.wait_for(failed.wait(), 20)
    stop.set()
    await asyncio.wait_for(running, 30)

    await catalog.retry_document(scope, "papers", document)

    [job] = [each for each in await catalog.jobs(stuck_after=60) if each.document == document]
    assert (job.status, job.scheduled_at) == ("todo", None)


@pytest.mark.parametrize(
    "limits",
    [BacklogLimits(documents=3, bytes=10**6), BacklogLimits(documents=100, bytes=12)],
    ids=["documents", "bytes"],
)
async def test_uploads_beyond_what_may_wait_are_refused_with_when_to_come_back(
    url: str, scope: Scope, blob: Callable[[str], BlobRef], limits: BacklogLimits
) -> None:
    async with open_catalog(url, pool_size=2, timeout=20.0, backlog=limits) as catalog:
        await fill(catalog, scope.tenant, 2, blob=lambda text: blob(text * 5))
        await catalog.admit(2)

        with pytest.raises(BacklogFullError) as caught:
            await catalog.admit(2)

    assert caught.value.retry_after
    assert (caught.value.code, caught.value.status) == ("backlog_full", 429)


async def test_room_that_was_made_is_seen_within_a_second(
    url: str, scope: Scope, blob: Callable[[str], BlobRef], until: Callable[..., Any]
) -> None:
    async with open_catalog(url, pool_size=2, timeout=20.0, backlog=BacklogLimits(documents=1)) as catalog:
        await fill(catalog, scope.tenant, 1, blob=blob)
        with pytest.raises(BacklogFullError):
            await catalog.check_backlog()
        await catalog.delete_collection(scope, "papers")

        async def room() -> bool:
            try:
                await catalog.check_backlog()
            except BacklogFullError:
                return False
            return True

        await until(room)


async def test_a_kept_result_is_its_tenants_own_expires_and_goes_with_its_bytes(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any]
) -> None:
    document = (await upload("a.pdf", "bytes")).document
    other = Scope(tenant="other", groups=None)
    await catalog.keep_result(scope, document.blob, "application/pdf", b"kept", ttl=60)
    await catalog.keep_result(scope, document.blob, "text/plain", b"expired", ttl=0.001)
    await catalog.keep_result(scope, document.blob, "text/html", bytes(2**22 + 1), ttl=60)

    found = [
        await catalog.kept_result(each, document.blob, media_type)
        for each, media_type in (
            (scope, "application/pdf"), (other, "application/pdf"), (scope, "text/plain"), (scope, "text/html"),
        )
    ]  # fmt: skip
    swept = await catalog.sweep_results()
    await catalog.delete_document(scope, "papers", document.id)
    swept_after_delete = await catalog.sweep_results()

    assert found == [b"kept", None, None, None]
    assert (swept, swept_after_delete) == (1, 1)
    assert await catalog.kept_result(scope, document.blob, "application/pdf") is None
