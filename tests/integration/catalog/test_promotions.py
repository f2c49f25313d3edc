"""A degraded document is served while it is promoted, and no order of changes loses or revives anything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any
from uuid import UUID

import psycopg
import pytest

from rag.catalog import Catalog, open_catalog
from rag.core.catalog import Attempt, PromotionPolicy
from rag.core.errors import ConflictError, DocumentNotFoundError, SupersededError
from rag.core.types import DocumentState, Quality, Scope

Degraded = Callable[..., Awaitable[UUID]]


@pytest.fixture
def degraded(upload: Callable[..., Any], publish: Callable[..., Any]) -> Degraded:
    """Uploads a document and publishes a summary of it."""

    async def run(source: str = "a.pdf") -> UUID:
        document: UUID = (await upload(source, source)).document.id
        await publish(document, quality=Quality.SUMMARY)
        return document

    return run


async def promotion_of(catalog: Catalog, document: UUID) -> Attempt:
    attempt = await catalog.claim_promotion("acme", document)
    assert attempt is not None
    return attempt


async def promotion_jobs(catalog: Catalog) -> list[Any]:
    return [each for each in await catalog.jobs(stuck_after=60) if each.task == "promote_document"]


async def test_a_degraded_document_is_published_with_its_fault_and_waits_for_a_promotion(
    catalog: Catalog, scope: Scope, degraded: Degraded
) -> None:
    document = await degraded()

    view = await catalog.get_document(scope, "papers", document)

    assert (view.state, view.quality, view.error_code) == (DocumentState.PUBLISHED, "summary", "parse_timeout")
    assert view.structure == {"pages": 3}
    assert view.promotion is not None
    assert (view.promotion.attempts, view.promotion.running) == (0, False)
    assert view.attempts[-1]["code"] == "parse_timeout"
    assert [each.document for each in await promotion_jobs(catalog)] == [document]


async def test_a_promotion_keeps_the_document_published_and_flips_it_to_full(
    catalog: Catalog, scope: Scope, degraded: Degraded, publication: Callable[..., Any]
) -> None:
    document = await degraded()
    before = await catalog.get_document(scope, "papers", document)
    attempt = await promotion_of(catalog, document)
    await catalog.stage(attempt, "embed")
    during = await catalog.get_document(scope, "papers", document)

    won = await catalog.publish([publication(attempt, {7: 1})])

    after = await catalog.get_document(scope, "papers", document)
    assert won == [True]
    assert (during.state, during.stage, during.generation) == (DocumentState.PUBLISHED, None, before.generation)
    assert during.promotion is not None
    assert during.promotion.running
    assert (after.quality, after.error_code, after.promotion, after.structure) == ("full", None, None, {})
    assert after.generation == attempt.generation
    assert [each["promotion"] for each in after.attempts] == [False, True]
    assert (await catalog.collection(scope, "papers", terms=[1, 2, 7])).document_counts == {7: 1}


async def test_a_failed_promotion_is_kept_in_the_history_and_repeated_until_there_were_enough(
    catalog: Catalog, scope: Scope, degraded: Degraded
) -> None:
    document = await degraded()
    for _ in range(2):
        attempt = await promotion_of(catalog, document)
        await catalog.fail(attempt, code="parse_timeout", message="too slow", history=[])

    view = await catalog.get_document(scope, "papers", document)

    assert (view.state, view.quality, view.error_code) == (DocumentState.PUBLISHED, "summary", "parse_timeout")
    assert [(each["outcome"], each["promotion"]) for each in view.attempts[1:]] == [("failed", True)] * 2
    assert view.promotion is not None
    assert (view.promotion.attempts, view.promotion.next_at) == (2, None)
    assert await catalog.claim_promotion("acme", document) is None


async def test_the_pause_before_a_promotion_doubles_and_none_is_claimed_before_it_is_due(
    url: str, scope: Scope, upload: Callable[..., Any], publication: Callable[..., Any]
) -> None:
    policy = PromotionPolicy(pause=100.0, attempts=3)
    document = (await upload("a.pdf")).document.id
    async with open_catalog(url, pool_size=2, timeout=20.0, promotion=policy) as patient:
        attempt = await patient.claim("acme", document)
        assert attempt is not None
        await patient.publish([publication(attempt, quality=Quality.FRAGMENT)])
        early = await patient.claim_promotion("acme", document)
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE anchorage.documents SET promotion_at = now()")
        due = await promotion_of(patient, document)
        await patient.fail(due, code="parse_timeout", message="too slow", history=[])
        view = await patient.get_document(scope, "papers", document)
        [job] = await promotion_jobs(patient)

    assert early is None
    assert view.promotion is not None
    assert view.promotion.next_at is not None
    assert timedelta(seconds=190) < view.promotion.next_at - datetime.now(UTC) <= timedelta(seconds=200)
    assert job.scheduled_at is not None


async def test_a_promotion_whose_worker_died_is_taken_up_again_and_its_loss_is_kept(
    catalog: Catalog, scope: Scope, degraded: Degraded, publication: Callable[..., Any]
) -> None:
    document = await degraded()
    dead = await promotion_of(catalog, document)

    successor = await promotion_of(catalog, document)

    assert await catalog.publish([publication(dead)]) == [False]
    assert await catalog.publish([publication(successor)]) == [True]
    view = await catalog.get_document(scope, "papers", document)
    assert (view.quality, view.generation) == ("full", successor.generation)
    assert [each["outcome"] for each in view.attempts] == ["published", "lost", "published"]
    assert dead.generation in {each.generation for each in await catalog.garbage(limit=10)}


async def test_a_promotion_that_kills_its_workers_is_given_up_and_the_document_stays_served(
    catalog: Catalog, scope: Scope, degraded: Degraded
) -> None:
    document = await degraded()
    claims = [await catalog.claim_promotion("acme", document) for _ in range(3)]

    view = await catalog.get_document(scope, "papers", document)

    assert [claim is not None for claim in claims] == [True, True, False]
    assert (view.state, view.quality) == (DocumentState.PUBLISHED, "summary")
    assert view.promotion is not None
    assert view.promotion.next_at is None


async def _upload_again(catalog: Catalog, scope: Scope, document: UUID, upload: Callable[..., Any]) -> None:
    await upload("a.pdf", "other bytes")


async def _patch(catalog: Catalog, scope: Scope, document: UUID, upload: Callable[..., Any]) -> None:
    await catalog.update_metadata(scope, "papers", document, {"year": 2})


async def _retry(catalog: Catalog, scope: Scope, document: UUID, upload: Callable[..., Any]) -> None:
    await catalog.retry_document(scope, "papers", document)


async def _cancel(catalog: Catalog, scope: Scope, document: UUID, upload: Callable[..., Any]) -> None:
    await catalog.cancel_document(scope, "papers", document)


async def _delete(catalog: Catalog, scope: Scope, document: UUID, upload: Callable[..., Any]) -> None:
    await catalog.delete_document(scope, "papers", document)


CHANGES = (_upload_again, _patch, _retry, _cancel, _delete)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_takes_the_right_from_a_running_promotion(  # noqa: PLR0917  fixtures
    catalog: Catalog,
    scope: Scope,
    upload: Callable[..., Any],
    degraded: Degraded,
    publication: Callable[..., Any],
    change: Callable[..., Awaitable[None]],
) -> None:
    document = await degraded()
    attempt = await promotion_of(catalog, document)

    await change(catalog, scope, document, upload)

    assert await catalog.held([attempt]) == set()
    with pytest.raises(SupersededError):
        await catalog.stage(attempt, "embed")
    assert await catalog.publish([publication(attempt)]) == [False]
    garbage = {(each.document, each.generation) for each in await catalog.garbage(limit=20)}
    assert {(document, attempt.generation), (document, None)} & garbage


async def test_metadata_changed_during_a_promotion_is_in_the_one_that_follows(
    catalog: Catalog, scope: Scope, degraded: Degraded, publication: Callable[..., Any]
) -> None:
    document = await degraded()
    overtaken = await promotion_of(catalog, document)
    await catalog.update_metadata(scope, "papers", document, {"year": 2})

    again = await promotion_of(catalog, document)

    assert await catalog.publish([publication(overtaken)]) == [False]
    assert await catalog.publish([publication(again)]) == [True]
    view = await catalog.get_document(scope, "papers", document)
    assert (again.metadata, view.metadata, view.quality) == ({"year": 2}, {"year": 2}, "full")


async def test_a_retry_of_a_degraded_document_is_queued_at_once_and_its_old_promotion_does_nothing(
    catalog: Catalog, scope: Scope, degraded: Degraded
) -> None:
    document = await degraded()

    view = await catalog.retry_document(scope, "papers", document)

    assert view.state is DocumentState.QUEUED
    assert await catalog.claim_promotion("acme", document) is None
    attempt = await catalog.claim("acme", document)
    assert attempt is not None
    assert attempt.fresh


async def test_a_cancelled_promotion_leaves_the_document_published_and_alone(
    catalog: Catalog, scope: Scope, degraded: Degraded
) -> None:
    document = await degraded()

    view = await catalog.cancel_document(scope, "papers", document)

    assert (view.state, view.quality) == (DocumentState.PUBLISHED, "summary")
    assert await catalog.claim_promotion("acme", document) is None
    with pytest.raises(ConflictError):
        await catalog.cancel_document(scope, "papers", document)


async def test_an_upload_goes_before_the_waiting_promotion_of_its_document(
    catalog: Catalog, upload: Callable[..., Any], degraded: Degraded, until: Callable[..., Any]
) -> None:
    document = await degraded()
    await upload("a.pdf", "other bytes")
    seen: list[str] = []
    stop = asyncio.Event()

    async def ingest(tenant: str, document: str) -> None:
        seen.append("ingest")

    async def promote(tenant: str, document: str) -> None:
        seen.append("promote")

    async def nothing(**_: str) -> None:
        return

    handlers = {
        "ingest_document": ingest,
        "promote_document": promote,
        "sweep": nothing,
        "align_metadata": nothing,
    }
    running = asyncio.create_task(catalog.queue.run(handlers, concurrency=2, stop_event=stop, upkeep_every=60.0))

    async def both() -> object:
        return {"ingest", "promote"} <= set(seen)

    await until(both)
    stop.set()
    await asyncio.wait_for(running, 30)

    assert document
    assert seen.index("ingest") < seen.index("promote")


async def test_a_degraded_document_without_a_promotion_job_gets_one(
    catalog: Catalog, url: str, degraded: Degraded
) -> None:
    document = await degraded()
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM anchorage.procrastinate_jobs")
        connection.execute("UPDATE anchorage.documents SET promotion_at = now() - interval '1 hour'")

    assert await catalog.queue.retry_stalled(60) == 1
    assert [each.document for each in await promotion_jobs(catalog)] == [document]
    assert await catalog.queue.retry_stalled(60) == 0


@pytest.mark.parametrize("order", list(permutations(("promoted", "uploaded", "patched", "deleted"))), ids="-".join)
async def test_in_whatever_order_things_come_the_last_state_is_right_and_counted_once(  # noqa: PLR0917  fixtures
    catalog: Catalog,
    scope: Scope,
    upload: Callable[..., Any],
    degraded: Degraded,
    publication: Callable[..., Any],
    order: tuple[str, ...],
) -> None:
    document = await degraded()
    promotion = await promotion_of(catalog, document)
    steps = {
        "promoted": lambda: catalog.publish([publication(promotion, {7: 1})]),
        "uploaded": lambda: upload("a.pdf", "other bytes", metadata={"year": 1}),
        "patched": lambda: catalog.update_metadata(scope, "papers", document, {"year": 2}),
        "deleted": lambda: catalog.delete_document(scope, "papers", document),
    }
    for step in order:
        try:
            await steps[step]()
        except DocumentNotFoundError:
            assert "deleted" in order[: order.index(step)]

    page = await catalog.list_documents(scope, "papers")
    for view in page.items:
        attempt = await catalog.claim("acme", view.id)
        assert attempt is not None
        assert await catalog.publish([publication(attempt, {9: 1})]) == [True]

    revived = "uploaded" in order[order.index("deleted") :]
    counted = (await catalog.collection(scope, "papers", terms=[1, 2, 7, 9])).document_counts
    assert (page.total, counted) == ((1, {9: 1}) if revived else (0, {}))
    assert {view.id for view in page.items}.isdisjoint({document})
    assert await catalog.claim_promotion("acme", document) is None
