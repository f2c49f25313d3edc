"""The queue with real workers: nothing queued is lost, nothing runs twice at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest

from rag.catalog import Catalog
from rag.catalog.migrate import migrate
from rag.core.catalog import CollectionView
from rag.core.errors import EmbeddingError, StoreError
from rag.core.types import DocumentState, Scope


@asynccontextmanager
async def worker(
    catalog: Catalog,
    ingest: Callable[..., Any],
    *,
    concurrency: int = 4,
    grace: float = 5.0,
    sweep: Callable[..., Any] | None = None,
    align: Callable[..., Any] | None = None,
) -> AsyncIterator[None]:
    """A running worker with ``ingest`` for its handler; stopped in order on the way out."""

    async def nothing(**_: str) -> None:
        return

    stop = asyncio.Event()
    handlers = {"ingest_document": ingest, "sweep": sweep or nothing, "align_metadata": align or nothing}
    running = asyncio.create_task(
        catalog.queue.run(handlers, concurrency=concurrency, stop_event=stop, grace=grace, upkeep_every=60.0)
    )
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(running, 30)


@pytest.fixture
def ingest(catalog: Catalog, publication: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that publishes what it claims."""

    async def run(tenant: str, document: str) -> None:
        attempt = await catalog.claim(tenant, UUID(document))
        if attempt is not None:
            await catalog.publish([publication(attempt)])

    return run


async def published(catalog: Catalog, scope: Scope) -> int:
    return (await catalog.list_documents(scope, "papers", state=DocumentState.PUBLISHED)).total


async def test_what_is_uploaded_is_published_and_the_queue_is_left_empty(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], ingest: Callable[..., Any], until: Callable[..., Any]
) -> None:
    for number in range(20):
        await upload(f"{number}.txt", str(number))

    async with worker(catalog, ingest):

        async def done() -> object:
            return await published(catalog, scope) == 20 and not await catalog.job_counts()

        await until(done)

    assert await catalog.oldest_job_age() == 0.0


async def test_an_alignment_that_fails_is_run_again_and_each_change_of_metadata_has_one(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], ingest: Callable[..., Any], until: Callable[..., Any]
) -> None:
    receipt = await upload("a.txt")
    seen: list[tuple[str, str]] = []

    async def align(tenant: str, document: str) -> None:
        seen.append((tenant, document))
        if len(seen) == 1:
            raise StoreError

    for year in (1, 2):
        await catalog.update_metadata(scope, "papers", receipt.document.id, {"year": year})
    async with worker(catalog, ingest, align=align):

        async def done() -> object:
            return not await catalog.job_counts()

        await until(done)

    assert seen == [("acme", str(receipt.document.id))] * 3


async def test_an_upload_during_a_run_is_processed_afterwards(
    catalog: Catalog,
    scope: Scope,
    upload: Callable[..., Any],
    publication: Callable[..., Any],
    until: Callable[..., Any],
) -> None:
    started, go_on, seen = asyncio.Event(), asyncio.Event(), []

    async def ingest(tenant: str, document: str) -> None:
        attempt = await catalog.claim(tenant, UUID(document))
        if attempt is None:
            return
        seen.append(attempt.blob)
        started.set()
        await go_on.wait()
        await catalog.publish([publication(attempt)])

    first = await upload("a.txt", "old")
    async with worker(catalog, ingest):
        await asyncio.wait_for(started.wait(), 20)
        await upload("a.txt", "new")
        go_on.set()

        async def done() -> object:
            return await published(catalog, scope) == 1

        await until(done)

    view = await catalog.get_document(scope, "papers", first.document.id)
    assert [each.sha256 for each in seen][-1] == view.blob.sha256
    assert len(seen) == 2


async def test_one_document_is_never_worked_on_by_two_jobs_at_once(
    catalog: Catalog,
    scope: Scope,
    upload: Callable[..., Any],
    publication: Callable[..., Any],
    until: Callable[..., Any],
) -> None:
    running, most = 0, 0

    async def ingest(tenant: str, document: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        attempt = await catalog.claim(tenant, UUID(document))
        if attempt is not None:
            await catalog.publish([publication(attempt)])
        running -= 1

    async with worker(catalog, ingest):
        for number in range(5):
            await upload("a.txt", str(number))
            await asyncio.sleep(0.02)

        async def done() -> object:
            return await published(catalog, scope) == 1 and not (await catalog.job_counts()).get("todo")

        await until(done)

    assert most == 1


async def test_a_stopped_worker_gives_its_job_back(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], ingest: Callable[..., Any], until: Callable[..., Any]
) -> None:
    started = asyncio.Event()

    async def endless(tenant: str, document: str) -> None:
        await catalog.claim(tenant, UUID(document))
        started.set()
        await asyncio.Event().wait()

    await upload("a.txt")
    async with worker(catalog, endless, grace=0.1):
        await asyncio.wait_for(started.wait(), 20)

    async with worker(catalog, ingest):

        async def done() -> object:
            return await published(catalog, scope) == 1

        await until(done)


async def test_a_job_that_raises_is_retried_and_a_try_that_was_given_back_is_not_counted(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], url: str
) -> None:
    failed = asyncio.Event()

    async def unavailable(tenant: str, document: str) -> None:
        attempt = await catalog.claim(tenant, UUID(document))
        assert attempt is not None
        await catalog.release(attempt)
        failed.set()
        raise EmbeddingError

    document = (await upload("a.txt")).document.id
    async with worker(catalog, unavailable):
        await asyncio.wait_for(failed.wait(), 20)

    view = await catalog.get_document(scope, "papers", document)
    [job] = [each for each in await catalog.jobs(stuck_after=60) if each.document == document]
    with psycopg.connect(url) as connection:
        [tries] = connection.execute("SELECT tries FROM anchorage.documents").fetchone()
    assert (view.state, job.status, tries) == (DocumentState.QUEUED, "todo", 0)
    assert job.scheduled_at is not None


async def test_an_attempt_that_lost_its_right_gives_nothing_back(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publication: Callable[..., Any], url: str
) -> None:
    document = (await upload("a.txt")).document.id
    lost = await catalog.claim("acme", document)
    current = await catalog.claim("acme", document)
    assert lost is not None
    assert current is not None

    await catalog.release(lost)

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT state, tries FROM anchorage.documents").fetchone() == ("running", 2)
    assert await catalog.publish([publication(current)]) == [True]


async def test_a_job_whose_worker_died_is_shown_as_stuck_and_retried(  # noqa: PLR0917  fixtures
    catalog: Catalog,
    scope: Scope,
    upload: Callable[..., Any],
    ingest: Callable[..., Any],
    url: str,
    until: Callable[..., Any],
) -> None:
    document = (await upload("a.txt")).document.id
    await catalog.claim("acme", document)
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path TO anchorage")
        connection.execute("INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 hour')")
        connection.execute(
            "UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT max(id) FROM procrastinate_workers)"
        )
    stuck = await catalog.jobs(stuck_after=60, only_stuck=True)

    retried = await catalog.queue.retry_stalled(60)

    assert [(each.document, each.status, each.stuck) for each in stuck] == [(document, "doing", True)]
    assert retried == 1
    assert await catalog.jobs(stuck_after=60, only_stuck=True) == []
    async with worker(catalog, ingest):

        async def done() -> object:
            return await published(catalog, scope) == 1

        await until(done)
    assert (await catalog.get_document(scope, "papers", document)).attempt == 2


async def test_an_unfinished_document_without_a_job_gets_one(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], url: str
) -> None:
    document = (await upload("a.txt")).document.id
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM anchorage.procrastinate_jobs")
        connection.execute("UPDATE anchorage.documents SET updated_at = now() - interval '1 hour'")

    assert await catalog.queue.retry_stalled(60) == 1
    assert [each.document for each in await catalog.jobs(stuck_after=60)] == [document]
    assert await catalog.queue.retry_stalled(60) == 0


async def test_a_queued_document_is_not_stalled(catalog: Catalog, upload: Callable[..., Any]) -> None:
    await upload("a.txt")

    assert await catalog.queue.retry_stalled(0) == 0
    assert await catalog.jobs(stuck_after=0, only_stuck=True) == []


async def test_the_worker_sweeps_by_itself(
    catalog: Catalog, papers: CollectionView, ingest: Callable[..., Any]
) -> None:
    swept = asyncio.Event()

    async def sweep() -> None:
        swept.set()

    async with worker(catalog, ingest, sweep=sweep):
        await asyncio.wait_for(swept.wait(), 20)


async def test_the_schema_of_the_queue_stands_beside_the_catalogs(empty_url: str) -> None:
    await migrate(empty_url)

    with psycopg.connect(empty_url) as connection:
        query = "SELECT DISTINCT schemaname FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        assert connection.execute(query).fetchall() == [("anchorage",)]
