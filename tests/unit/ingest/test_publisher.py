"""Publications of one collection share commits; each learns its own outcome."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from ingest.publisher import open_publisher
from rag.core.catalog import BlobRef, Publication
from rag.core.errors import CatalogError
from rag.core.types import Quality
from tests.unit.ingest.fakes import TENANT, MemoryCatalog


@pytest.fixture
def catalog() -> MemoryCatalog:
    return MemoryCatalog(dimension=2, model="m")


async def publication(catalog: MemoryCatalog, document: UUID | None = None) -> Publication:
    document = document or catalog.add(BlobRef(sha256="0" * 64, size=1))
    attempt = await catalog.claim(TENANT, document)
    assert attempt is not None
    return Publication(
        attempt=attempt, chunks=1, characters=1, quality=Quality.FULL, title=None, text_blob=None, encoding=None,
        parse_attempts=(), total_terms=1, document_counts={1: 1},
    )  # fmt: skip


async def test_the_first_goes_at_once_and_the_rest_together(catalog: MemoryCatalog) -> None:
    publications = [await publication(catalog) for _ in range(10)]

    async with open_publisher(catalog, interval=0.2) as publisher:
        first = asyncio.create_task(publisher.publish(publications[0]))
        assert await first
        outcomes = await asyncio.gather(*map(publisher.publish, publications[1:]))

    assert outcomes == [True] * 9
    assert catalog.commits == [1, 9]


async def test_collections_do_not_wait_for_each_other(catalog: MemoryCatalog) -> None:
    first, second = await publication(catalog), await publication(catalog)
    other = replace(second.attempt.collection, physical="c_2")
    second = replace(second, attempt=replace(second.attempt, collection=other))

    async with open_publisher(catalog, interval=3600.0) as publisher:
        outcomes = await asyncio.gather(publisher.publish(first), publisher.publish(second))

    assert outcomes == [True, True]
    assert catalog.commits == [1, 1]


async def test_who_lost_its_right_learns_it_and_the_others_are_published(catalog: MemoryCatalog) -> None:
    warm, won, lost = [await publication(catalog) for _ in range(3)]
    catalog.rows[lost.attempt.document].attempt += 1

    async with open_publisher(catalog, interval=0.05) as publisher:
        await publisher.publish(warm)
        outcomes = await asyncio.gather(publisher.publish(won), publisher.publish(lost))

    assert outcomes == [True, False]


async def test_an_outage_reaches_everyone_who_waits_and_the_next_are_published(catalog: MemoryCatalog) -> None:
    publications = [await publication(catalog) for _ in range(3)]

    async with open_publisher(catalog, interval=0.01) as publisher:
        catalog.error = CatalogError()
        failed = await asyncio.gather(*map(publisher.publish, publications[:2]), return_exceptions=True)
        catalog.error = None
        outcome = await publisher.publish(publications[2])

    assert [type(each) for each in failed] == [CatalogError, CatalogError]
    assert outcome is True


async def test_who_is_cancelled_while_waiting_is_not_published(catalog: MemoryCatalog) -> None:
    warm, gone, kept = [await publication(catalog) for _ in range(3)]

    async with open_publisher(catalog, interval=0.2) as publisher:
        await publisher.publish(warm)
        waiting = asyncio.create_task(publisher.publish(gone))
        staying = asyncio.create_task(publisher.publish(kept))
        await asyncio.sleep(0)
        waiting.cancel()
        outcome = await staying

    assert outcome is True
    assert catalog.rows[gone.attempt.document].state == "running"


async def test_closing_ends_who_still_waits(catalog: MemoryCatalog) -> None:
    warm, late = await publication(catalog), await publication(catalog)

    async with open_publisher(catalog, interval=3600.0) as publisher:
        await publisher.publish(warm)
        waiting = asyncio.create_task(publisher.publish(late))
        await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        await waiting
