"""Deletes in every state: gone when the call returns, whatever the worker and the store do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rag.catalog import Catalog
from rag.core.catalog import CollectionView
from rag.core.errors import DocumentNotFoundError, SupersededError
from rag.core.types import Scope


async def test_a_deleted_document_is_never_current_again(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id
    generation = await publish(document)
    before = (await catalog.collection(scope, "papers")).epoch

    await catalog.delete_document(scope, "papers", document)

    view = await catalog.collection(scope, "papers", terms=[1, 2])
    assert await catalog.current(scope, [(document, generation)]) == {}
    assert (view.documents, view.statistics.chunks, view.statistics.total_terms, dict(view.document_counts)) == (
        0,
        0,
        0,
        {},
    )
    assert view.epoch == before + 1
    with pytest.raises(DocumentNotFoundError):
        await catalog.get_document(scope, "papers", document)


async def test_delete_while_running_takes_the_right_from_the_attempt(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publication: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id
    attempt = await catalog.claim("acme", document)

    await catalog.delete_document(scope, "papers", document)

    with pytest.raises(SupersededError):
        await catalog.stage(attempt, "embedding")
    assert await catalog.publish([publication(attempt)]) == [False]
    assert await catalog.claim("acme", document) is None
    assert (await catalog.collection(scope, "papers")).statistics.chunks == 0


async def test_what_a_running_attempt_writes_after_the_delete_is_garbage_too(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publication: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id
    attempt = await catalog.claim("acme", document)
    await catalog.delete_document(scope, "papers", document)
    await catalog.swept([each.id for each in await catalog.garbage(limit=10)])

    await catalog.publish([publication(attempt)])

    assert [each.generation for each in await catalog.garbage(limit=10)] == [attempt.generation]


@pytest.mark.parametrize("state", ["queued", "failed"])
async def test_delete_is_legal_before_and_after_an_attempt(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], state: str
) -> None:
    document = (await upload("a.txt")).document.id
    if state == "failed":
        await catalog.fail(await catalog.claim("acme", document), code="x", message="x", history=[])

    await catalog.delete_document(scope, "papers", document)

    assert (await catalog.list_documents(scope, "papers")).total == 0
    assert await catalog.claim("acme", document) is None


async def test_all_generations_of_a_deleted_document_are_garbage_and_a_sweep_waits(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any], papers: CollectionView
) -> None:
    document = (await upload("a.txt")).document.id
    await publish(document)

    await catalog.delete_document(scope, "papers", document)

    [garbage] = await catalog.garbage(limit=10)
    assert (garbage.tenant, garbage.physical, garbage.document, garbage.generation) == (
        "acme",
        papers.physical,
        document,
        None,
    )
    assert "sweep" in {job.task for job in await catalog.jobs(stuck_after=60)}


async def test_a_document_can_be_uploaded_again_after_a_delete(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    first = (await upload("a.txt")).document.id
    await publish(first)
    await catalog.delete_document(scope, "papers", first)

    again = await upload("a.txt")

    assert again.created
    assert again.document.id != first
