"""Claim, stage, publish and fail: the fence that keeps what is served whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rag.catalog import Catalog
from rag.core.catalog import CollectionView
from rag.core.errors import SupersededError
from rag.core.types import DocumentState, Scope


async def test_a_claim_counts_the_attempt_and_gives_a_new_generation(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id

    first = await catalog.claim("acme", document)
    second = await catalog.claim("acme", document)

    assert (first.attempt, second.attempt) == (1, 2)
    assert second.generation > first.generation
    assert (first.base_generation, first.source, first.scope.groups) == (None, "a.txt", None)
    assert (await catalog.get_document(scope, "papers", document)).state is DocumentState.RUNNING


async def test_there_is_nothing_to_claim_of_an_ended_or_unknown_document(
    catalog: Catalog, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id
    await publish(document)

    assert await catalog.claim("acme", document) is None


async def test_an_old_attempt_can_neither_publish_nor_stage_nor_fail(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publication: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id
    killed = await catalog.claim("acme", document)
    retried = await catalog.claim("acme", document)

    assert await catalog.publish([publication(killed)]) == [False]
    with pytest.raises(SupersededError):
        await catalog.stage(killed, "embedding")
    await catalog.fail(killed, code="late", message="late", history=[])

    view = await catalog.get_document(scope, "papers", document)
    assert (view.state, view.generation, view.error_code) == (DocumentState.RUNNING, None, None)
    assert await catalog.publish([publication(retried)]) == [True]
    assert killed.generation in {each.generation for each in await catalog.garbage(limit=20)}


async def test_an_attempt_publishes_once(
    catalog: Catalog, upload: Callable[..., Any], publication: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id
    attempt = await catalog.claim("acme", document)

    first = await catalog.publish([publication(attempt)])
    second = await catalog.publish([publication(attempt)])

    assert (first, second) == ([True], [False])


async def test_an_attempt_loses_its_right_to_a_new_upload(
    catalog: Catalog, upload: Callable[..., Any], publication: Callable[..., Any]
) -> None:
    document = (await upload("a.txt", "old")).document.id
    attempt = await catalog.claim("acme", document)
    await upload("a.txt", "new")

    lost = await catalog.publish([publication(attempt)])

    again = await catalog.claim("acme", document)
    assert lost == [False]
    assert again.blob != attempt.blob


async def test_the_stage_is_shown_and_cleared_by_the_end(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publication: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id
    attempt = await catalog.claim("acme", document)

    await catalog.stage(attempt, "embedding")
    shown = (await catalog.get_document(scope, "papers", document)).stage
    await catalog.publish([publication(attempt)])

    assert shown == "embedding"
    assert (await catalog.get_document(scope, "papers", document)).stage is None


async def test_one_publish_of_many_bumps_the_epoch_once_and_tells_who_lost(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publication: Callable[..., Any]
) -> None:
    documents = [(await upload(f"{n}.txt", str(n))).document.id for n in range(4)]
    attempts = [await catalog.claim("acme", each) for each in documents]
    await catalog.delete_document(scope, "papers", documents[1])
    before = (await catalog.collection(scope, "papers")).epoch

    won = await catalog.publish([publication(each) for each in attempts])

    view = await catalog.collection(scope, "papers")
    assert won == [True, False, True, True]
    assert view.epoch == before + 1
    assert (view.documents, view.statistics.chunks) == (3, 6)


async def test_what_was_published_is_shown(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any], blob: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id

    generation = await publish(document, chunks=7, text="abc")

    view = await catalog.get_document(scope, "papers", document)
    assert (view.state, view.generation, view.chunks, view.characters) == (DocumentState.PUBLISHED, generation, 7, 3)
    assert (view.title, view.encoding, view.quality) == ("A title", "utf-8", "full")
    assert view.published_at is not None
    [attempt] = view.attempts
    assert (attempt["outcome"], attempt["parsers"][0]["parser"]) == ("published", "plain")


async def test_a_replaced_generation_becomes_garbage_and_is_forgotten_when_swept(
    catalog: Catalog, upload: Callable[..., Any], publish: Callable[..., Any], papers: CollectionView
) -> None:
    document = (await upload("a.txt", "old")).document.id
    old = await publish(document)
    await upload("a.txt", "new")
    await publish(document)

    garbage = await catalog.garbage(limit=10)
    await catalog.swept([each.id for each in garbage])

    assert [(each.physical, each.document, each.generation) for each in garbage] == [(papers.physical, document, old)]
    assert await catalog.garbage(limit=10) == []


async def test_a_document_that_kills_its_workers_is_given_up(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id
    claims = [await catalog.claim("acme", document) for _ in range(3)]

    last = await catalog.claim("acme", document)

    view = await catalog.get_document(scope, "papers", document)
    assert all(claims)
    assert last is None
    assert (view.state, view.error_code, view.attempt) == (DocumentState.FAILED, "too_many_attempts", 3)
    assert [(each["attempt"], each["outcome"], each["code"]) for each in view.attempts] == [
        (number, "lost", "worker_ended") for number in (1, 2, 3)
    ]


async def test_a_retry_starts_the_count_of_attempts_again(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id
    for _ in range(4):
        await catalog.claim("acme", document)

    await catalog.retry_document(scope, "papers", document)

    attempt = await catalog.claim("acme", document)
    assert attempt.attempt == 4


async def test_the_history_keeps_the_newest_twenty(catalog: Catalog, scope: Scope, upload: Callable[..., Any]) -> None:
    document = (await upload("a.txt")).document.id
    for _ in range(23):
        attempt = await catalog.claim("acme", document)
        await catalog.fail(attempt, code="broken", message="no", history=[])
        await catalog.retry_document(scope, "papers", document)

    view = await catalog.get_document(scope, "papers", document)

    assert [each["attempt"] for each in view.attempts] == list(range(4, 24))


async def test_publishes_of_one_collection_at_the_same_time_lose_nothing(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publication: Callable[..., Any]
) -> None:
    documents = [(await upload(f"{n}.txt", str(n))).document.id for n in range(12)]
    attempts = [await catalog.claim("acme", each) for each in documents]

    won = await asyncio.gather(*(catalog.publish([publication(each, {5: 1, 9: 2})]) for each in attempts))

    view = await catalog.collection(scope, "papers", terms=[5, 9])
    assert won == [[True]] * 12
    assert view.document_counts == {5: 12, 9: 24}


async def test_a_publish_is_of_one_collection_and_may_be_empty(  # noqa: PLR0917  fixtures
    catalog: Catalog,
    scope: Scope,
    papers: CollectionView,
    upload: Callable[..., Any],
    publication: Callable[..., Any],
    blob: Callable[..., Any],
) -> None:
    await catalog.create_collection(scope, "other", embedding_model="e5", spec=papers.spec)
    there = await catalog.create_document(
        scope, "other", source="a", blob=blob("a"), media_type="text/plain", metadata={}
    )
    attempts = [await catalog.claim("acme", each.document.id) for each in (await upload("a.txt"), there)]

    with pytest.raises(ValueError, match="one collection"):
        await catalog.publish([publication(each) for each in attempts])

    assert await catalog.publish([]) == []
