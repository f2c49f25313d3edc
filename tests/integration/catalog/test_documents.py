"""Uploads, listings and changes of documents on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Never
from uuid import UUID, uuid4

import psycopg
import pytest

from rag.catalog import Catalog
from rag.core.catalog import CollectionView, JobView
from rag.core.errors import (
    CollectionNotFoundError,
    ConflictError,
    DocumentNotFoundError,
    FilterError,
    InvalidRequestError,
)
from rag.core.types import DocumentState, Scope


async def jobs_of(catalog: Catalog, document: UUID) -> list[JobView]:
    return [job for job in await catalog.jobs(stuck_after=60) if job.document == document]


async def test_an_upload_is_visible_at_once_with_a_job(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any]
) -> None:
    receipt = await upload(
        "a.txt", metadata={"year": 2020, "at": "2024-05-01T10:00:00+02:00", "tags": ["x"]}, acl=("b", "a")
    )

    [listed] = (await catalog.list_documents(scope, "papers")).items
    assert listed == receipt.document
    assert (receipt.created, receipt.unchanged, listed.state) == (True, False, DocumentState.QUEUED)
    assert listed.metadata["at"] == datetime(2024, 5, 1, 8, tzinfo=UTC)
    assert listed.acl == ("a", "b")
    assert len(await jobs_of(catalog, listed.id)) == 1


async def test_the_row_and_its_job_are_one_commit(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> Never:
        raise psycopg.OperationalError("gone")

    monkeypatch.setattr(catalog.queue, "defer_ingest", broken)

    with pytest.raises(Exception, match="failed"):
        await upload("a.txt")

    assert (await catalog.list_documents(scope, "papers")).total == 0


async def test_unchanged_bytes_and_metadata_queue_nothing(
    catalog: Catalog, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    first = await upload("a.txt", metadata={"year": 1})
    again = await upload("a.txt", metadata={"year": 1})
    await publish(first.document.id)

    published = await upload("a.txt", metadata={"year": 1})

    assert again.unchanged
    assert published.unchanged
    assert published.document.state is DocumentState.PUBLISHED
    assert len(await jobs_of(catalog, first.document.id)) == 1


@pytest.mark.parametrize("change", [{"content": "new"}, {"metadata": {"year": 2}}, {"acl": ("g",)}, {"title": "New"}])
async def test_any_difference_queues_the_same_document_again(
    catalog: Catalog, upload: Callable[..., Any], publish: Callable[..., Any], change: dict[str, Any]
) -> None:
    first = await upload("a.txt", metadata={"year": 1})
    await publish(first.document.id)

    second = await upload("a.txt", **({"metadata": {"year": 1}} | change))

    assert second.document.id == first.document.id
    assert (second.unchanged, second.created, second.document.state) == (False, False, DocumentState.QUEUED)


async def test_a_replaced_document_stays_served_until_the_new_one_is_published(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    first = await upload("a.txt", "old")
    old = await publish(first.document.id)
    await upload("a.txt", "new")

    served = await catalog.current(scope, [(first.document.id, old)])
    new = await publish(first.document.id)

    assert set(served) == {first.document.id}
    assert await catalog.current(scope, [(first.document.id, old)]) == {}
    assert set(await catalog.current(scope, [(first.document.id, new), (first.document.id, old)])) == {
        first.document.id
    }


async def test_a_failed_document_uploaded_again_is_retried_with_its_history(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any]
) -> None:
    first = await upload("a.txt")
    attempt = await catalog.claim("acme", first.document.id)
    await catalog.fail(attempt, code="encrypted", message="needs a password", history=[{"parser": "pdf"}])

    failed = await catalog.get_document(scope, "papers", first.document.id)
    again = await upload("a.txt")

    assert (failed.state, failed.error_code, failed.error_message) == (
        DocumentState.FAILED,
        "encrypted",
        "needs a password",
    )
    assert not again.unchanged
    assert (again.document.state, again.document.error_code) == (DocumentState.QUEUED, None)
    assert [(each["attempt"], each["code"]) for each in again.document.attempts] == [(1, "encrypted")]


async def test_a_failed_replacement_leaves_the_old_generation_served(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    first = await upload("a.txt", "old")
    old = await publish(first.document.id)
    await upload("a.txt", "new")
    attempt = await catalog.claim("acme", first.document.id)

    await catalog.fail(attempt, code="parse_failed", message="no", history=[])

    assert set(await catalog.current(scope, [(first.document.id, old)])) == {first.document.id}


async def test_concurrent_equal_uploads_make_one_document_and_one_job(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any]
) -> None:
    receipts = await asyncio.gather(*(upload("a.txt") for _ in range(20)))

    assert sum(receipt.created for receipt in receipts) == 1
    assert len({receipt.document.id for receipt in receipts}) == 1
    assert len(await jobs_of(catalog, receipts[0].document.id)) == 1


async def test_the_same_bytes_under_two_sources_are_two_documents(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any]
) -> None:
    first, second = await upload("a.txt", "same"), await upload("b.txt", "same")

    await catalog.delete_document(scope, "papers", first.document.id)

    assert [each.id for each in (await catalog.list_documents(scope, "papers")).items] == [second.document.id]


async def test_pages_hold_every_document_once_newest_first(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any]
) -> None:
    made = [(await upload(f"文件-{number}.txt", str(number))).document.id for number in range(7)]

    seen, cursor = [], None
    while True:
        page = await catalog.list_documents(scope, "papers", cursor=cursor, limit=3)
        seen += [each.id for each in page.items]
        cursor = page.next
        assert page.total == 7
        if cursor is None:
            break

    assert seen == made[::-1]


async def test_a_listing_is_filtered_by_state_and_source(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    first = await upload("a.txt")
    await upload("b.txt", "b")
    await publish(first.document.id)

    by_state = await catalog.list_documents(scope, "papers", state=DocumentState.PUBLISHED)
    by_source = await catalog.list_documents(scope, "papers", source="b.txt")

    assert [each.source for each in by_state.items] == ["a.txt"]
    assert [each.source for each in by_source.items] == ["b.txt"]


@pytest.mark.parametrize("cursor", ["x", "!!!", "MjAyNA=="])
async def test_a_bad_cursor_is_refused(catalog: Catalog, scope: Scope, papers: CollectionView, cursor: str) -> None:
    with pytest.raises(InvalidRequestError):
        await catalog.list_documents(scope, "papers", cursor=cursor)


@pytest.mark.parametrize("metadata", [{"year": "x"}, {"id": 1}, {"note": float("nan")}, {"note": "a\0b"}])
async def test_bad_metadata_is_refused_and_nothing_is_kept(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], metadata: dict[str, Any]
) -> None:
    with pytest.raises(FilterError):
        await upload("a.txt", metadata=metadata)

    assert (await catalog.list_documents(scope, "papers")).total == 0


@pytest.mark.parametrize("source", ["a\0b", "\ud800"])
async def test_text_that_cannot_be_stored_is_the_callers_fault(upload: Callable[..., Any], source: str) -> None:
    with pytest.raises(InvalidRequestError):
        await upload(source)


async def test_metadata_changes_without_a_new_ingest_and_bumps_the_epoch(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    first = await upload("a.txt", metadata={"year": 1})
    generation = await publish(first.document.id)
    before = await catalog.collection(scope, "papers")

    view = await catalog.update_metadata(scope, "papers", first.document.id, {"year": 2})

    assert (view.metadata, view.state, view.generation) == ({"year": 2}, DocumentState.PUBLISHED, generation)
    assert (await catalog.collection(scope, "papers")).epoch == before.epoch + 1
    assert await catalog.kept_metadata("acme", first.document.id) == (before.physical, {"year": 2})
    assert await catalog.kept_metadata("another", first.document.id) is None


async def test_metadata_changed_while_running_takes_the_right_from_the_attempt(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publication: Callable[..., Any]
) -> None:
    first = await upload("a.txt", metadata={"year": 1})
    attempt = await catalog.claim("acme", first.document.id)

    await catalog.update_metadata(scope, "papers", first.document.id, {"year": 2})

    assert await catalog.publish([publication(attempt)]) == [False]
    again = await catalog.claim("acme", first.document.id)
    assert again.metadata == {"year": 2}


async def test_a_retry_works_in_every_state_and_takes_the_right_from_a_running_attempt(
    catalog: Catalog,
    scope: Scope,
    upload: Callable[..., Any],
    publish: Callable[..., Any],
    publication: Callable[..., Any],
) -> None:
    document = (await upload("a.txt")).document.id

    queued = await catalog.retry_document(scope, "papers", document)
    attempt = await catalog.claim("acme", document)
    running = await catalog.retry_document(scope, "papers", document)
    lost = await catalog.publish([publication(attempt)])
    await publish(document)
    published = await catalog.retry_document(scope, "papers", document)

    assert [each.state for each in (queued, running, published)] == [DocumentState.QUEUED] * 3
    assert lost == [False]
    again = await catalog.claim("acme", document)
    assert (attempt.fresh, again.fresh) == (False, True)


async def test_a_cancelled_document_ends_and_what_is_served_stays_served(
    catalog: Catalog,
    scope: Scope,
    upload: Callable[..., Any],
    publish: Callable[..., Any],
    publication: Callable[..., Any],
) -> None:
    document = (await upload("a.txt", "old")).document.id
    served = await publish(document)
    await upload("a.txt", "new")
    attempt = await catalog.claim("acme", document)

    view = await catalog.cancel_document(scope, "papers", document)

    assert (view.state, view.generation) == (DocumentState.CANCELLED, served)
    assert await catalog.publish([publication(attempt)]) == [False]
    assert await catalog.claim("acme", document) is None
    assert attempt.generation in {each.generation for each in await catalog.garbage(limit=10)}
    with pytest.raises(ConflictError):
        await catalog.cancel_document(scope, "papers", document)
    assert (await upload("a.txt", "new")).document.state is DocumentState.QUEUED


async def test_the_text_is_that_of_the_served_generation(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any], blob: Callable[..., Any]
) -> None:
    first = await upload("a.txt")
    before = await catalog.text_ref(scope, "papers", first.document.id)
    await publish(first.document.id, text="hello")

    assert before is None
    assert await catalog.text_ref(scope, "papers", first.document.id) == blob("parsed hello")


async def test_a_given_title_wins_over_the_parsed_one(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    given, parsed = await upload("a.txt", title="Given"), await upload("b.txt", "b")
    await publish(given.document.id)
    await publish(parsed.document.id)

    titles = {each.source: each.title for each in (await catalog.list_documents(scope, "papers")).items}

    assert titles == {"a.txt": "Given", "b.txt": "A title"}


async def test_groups_see_their_documents_and_those_without_a_list(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    limited, open_to_all = await upload("a.txt", acl=("staff",)), await upload("b.txt", "b")
    generations = [(each.document.id, await publish(each.document.id)) for each in (limited, open_to_all)]

    def seen_by(groups: frozenset[str] | None) -> Awaitable[Any]:
        return catalog.current(Scope(tenant="acme", groups=groups), generations)

    assert set(await seen_by(None)) == {limited.document.id, open_to_all.document.id}
    assert set(await seen_by(frozenset({"staff", "x"}))) == {limited.document.id, open_to_all.document.id}
    assert set(await seen_by(frozenset({"x"}))) == {open_to_all.document.id}
    assert set(await seen_by(frozenset())) == {open_to_all.document.id}
    with pytest.raises(DocumentNotFoundError):
        await catalog.get_document(Scope(tenant="acme"), "papers", limited.document.id)


async def test_unknown_documents_and_collections_are_not_found(
    catalog: Catalog, scope: Scope, papers: CollectionView, upload: Callable[..., Any], blob: Callable[..., Any]
) -> None:
    for call in (catalog.get_document, catalog.delete_document, catalog.retry_document, catalog.text_ref):
        with pytest.raises(DocumentNotFoundError):
            await call(scope, "papers", uuid4())
    with pytest.raises(CollectionNotFoundError):
        await catalog.create_document(scope, "none", source="a", blob=blob("a"), media_type="text/plain", metadata={})
