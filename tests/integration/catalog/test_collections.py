"""Collections on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rag.catalog import Catalog
from rag.core.catalog import CollectionView
from rag.core.errors import CollectionExistsError, CollectionNotFoundError, InvalidRequestError
from rag.core.records import CollectionSpec, HnswIndex, Metric
from rag.core.types import FieldType, Scope

SPEC = CollectionSpec(
    dimension=384, metric=Metric.L2, index=HnswIndex(m=8, ef_construction=50), filterable={"年": FieldType.INTEGER}
)


async def test_a_chinese_name_gives_a_plain_physical_name_and_the_spec_survives(catalog: Catalog, scope: Scope) -> None:
    view, created = await catalog.create_collection(scope, "论文 2026", embedding_model="e5", spec=SPEC)

    assert created
    assert view == await catalog.collection(scope, "论文 2026")
    assert view.spec == SPEC
    assert view.physical.isascii()
    assert view.physical.replace("_", "").isalnum()
    assert len(view.physical) <= 60


async def test_names_that_are_equal_in_nfc_are_the_same_collection(catalog: Catalog, scope: Scope) -> None:
    await catalog.create_collection(scope, "cafe\u0301", embedding_model="e5", spec=SPEC)

    _, created = await catalog.create_collection(scope, "caf\u00e9", embedding_model="e5", spec=SPEC)

    assert not created


@pytest.mark.parametrize(
    "other",
    [{"embedding_model": "other"}, {"spec": replace(SPEC, dimension=3)}, {"spec": replace(SPEC, filterable={})}],
)
async def test_the_same_name_with_other_settings_is_refused(
    catalog: Catalog, scope: Scope, other: dict[str, Any]
) -> None:
    await catalog.create_collection(scope, "papers", embedding_model="e5", spec=SPEC)

    with pytest.raises(CollectionExistsError):
        await catalog.create_collection(scope, "papers", **({"embedding_model": "e5", "spec": SPEC} | other))


async def test_concurrent_creations_make_one_collection(catalog: Catalog, scope: Scope) -> None:
    made = await asyncio.gather(
        *(catalog.create_collection(scope, "papers", embedding_model="e5", spec=SPEC) for _ in range(8))
    )

    assert sum(created for _, created in made) == 1
    assert len({view.physical for view, _ in made}) == 1


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "a\0b", "x" * 129, "\ud800"])
async def test_a_bad_name_is_refused(catalog: Catalog, scope: Scope, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        await catalog.create_collection(scope, name, embedding_model="e5", spec=SPEC)


async def test_a_reserved_field_is_refused(catalog: Catalog, scope: Scope) -> None:
    spec = replace(SPEC, filterable={"vector": FieldType.STRING})

    with pytest.raises(InvalidRequestError, match="vector"):
        await catalog.create_collection(scope, "papers", embedding_model="e5", spec=spec)


async def test_deleting_removes_documents_and_leaves_the_physical_collection_as_garbage(
    catalog: Catalog, scope: Scope, papers: CollectionView, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    receipt = await upload("a.txt")
    await publish(receipt.document.id)

    deleted = await catalog.delete_collection(scope, "papers")

    assert deleted.physical == papers.physical
    assert await catalog.list_collections(scope) == []
    with pytest.raises(CollectionNotFoundError):
        await catalog.collection(scope, "papers")
    [garbage] = await catalog.garbage(limit=10)
    assert (garbage.physical, garbage.document, garbage.generation) == (papers.physical, None, None)


async def test_a_deleted_collection_can_be_made_anew_with_another_physical_one(
    catalog: Catalog, scope: Scope, papers: CollectionView
) -> None:
    await catalog.delete_collection(scope, "papers")

    view, created = await catalog.create_collection(scope, "papers", embedding_model="e5", spec=papers.spec)

    assert created
    assert view.physical != papers.physical


async def test_a_deleted_collection_leaves_the_running_attempt_without_right(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publication: Callable[..., Any]
) -> None:
    receipt = await upload("a.txt")
    attempt = await catalog.claim("acme", receipt.document.id)

    await catalog.delete_collection(scope, "papers")

    assert await catalog.publish([publication(attempt)]) == [False]
    assert len(await catalog.garbage(limit=10)) == 1


async def test_listing_counts_what_is_served(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    await publish((await upload("a.txt")).document.id, chunks=5)
    await upload("b.txt", "other")

    [view] = await catalog.list_collections(scope)

    assert (view.documents, view.statistics.chunks) == (1, 5)


async def test_an_unknown_collection_is_not_found_by_any_call(catalog: Catalog, scope: Scope) -> None:
    for call in (
        catalog.collection(scope, "none"),
        catalog.delete_collection(scope, "none"),
        catalog.list_documents(scope, "none"),
    ):
        with pytest.raises(CollectionNotFoundError):
            await call
