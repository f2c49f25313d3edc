"""A foreign tenant is an unknown one, everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from rag.catalog import Catalog
from rag.core.catalog import CollectionView
from rag.core.errors import CollectionNotFoundError, DocumentNotFoundError
from rag.core.types import Scope

OTHER = Scope(tenant="other", groups=None)


@pytest.fixture
async def document(upload: Callable[..., Any], publish: Callable[..., Any]) -> tuple[UUID, int]:
    """A published document of the tenant ``acme``, and its generation."""
    receipt = await upload("a.txt", metadata={"year": 1})
    return receipt.document.id, await publish(receipt.document.id)


@pytest.fixture
async def calls(
    catalog: Catalog, document: tuple[UUID, int], blob: Callable[..., Any]
) -> dict[str, Callable[..., Any]]:
    """Every call that reads or changes ``acme``'s documents, for a given scope."""
    id, _ = document

    return {
        "collection": lambda scope: catalog.collection(scope, "papers"),
        "delete_collection": lambda scope: catalog.delete_collection(scope, "papers"),
        "create_document": lambda scope: catalog.create_document(
            scope, "papers", source="b", blob=blob("b"), media_type="text/plain", metadata={}
        ),
        "list_documents": lambda scope: catalog.list_documents(scope, "papers"),
        "get_document": lambda scope: catalog.get_document(scope, "papers", id),
        "text_ref": lambda scope: catalog.text_ref(scope, "papers", id),
        "update_metadata": lambda scope: catalog.update_metadata(scope, "papers", id, {"year": 2}),
        "retry_document": lambda scope: catalog.retry_document(scope, "papers", id),
        "cancel_document": lambda scope: _cancelled(catalog, scope, id),
        "delete_document": lambda scope: catalog.delete_document(scope, "papers", id),
    }


async def _cancelled(catalog: Catalog, scope: Scope, id: UUID) -> None:
    """What has ended is queued for its owner first, so that there is something to cancel."""
    if scope.tenant != OTHER.tenant:
        await catalog.retry_document(scope, "papers", id)
    await catalog.cancel_document(scope, "papers", id)


NAMES = (
    "collection", "create_document", "list_documents", "get_document", "text_ref", "update_metadata", "retry_document",
    "cancel_document", "delete_document", "delete_collection",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
async def test_a_call_for_another_tenant_is_an_unknown_one_and_changes_nothing(
    catalog: Catalog, scope: Scope, document: tuple[UUID, int], calls: dict[str, Callable[..., Any]], name: str
) -> None:
    before = await catalog.get_document(scope, "papers", document[0])

    with pytest.raises((CollectionNotFoundError, DocumentNotFoundError)):
        await calls[name](OTHER)

    assert await catalog.get_document(scope, "papers", document[0]) == before


@pytest.mark.parametrize("name", NAMES)
async def test_the_same_call_works_for_the_owner(scope: Scope, calls: dict[str, Callable[..., Any]], name: str) -> None:
    await calls[name](scope)


@pytest.mark.parametrize("name", [each for each in NAMES if each.endswith(("document", "metadata", "ref"))])
async def test_a_collection_of_the_same_name_opens_no_door(  # noqa: PLR0917  fixtures
    catalog: Catalog,
    scope: Scope,
    papers: CollectionView,
    document: tuple[UUID, int],
    calls: dict[str, Callable[..., Any]],
    name: str,
) -> None:
    await catalog.create_collection(OTHER, "papers", embedding_model="e5", spec=papers.spec)
    before = await catalog.get_document(scope, "papers", document[0])

    if name == "create_document":
        await calls[name](OTHER)
    else:
        with pytest.raises(DocumentNotFoundError):
            await calls[name](OTHER)

    assert await catalog.get_document(scope, "papers", document[0]) == before
    assert (await catalog.list_documents(scope, "papers")).total == 1


async def test_nothing_of_another_tenant_is_current_claimable_or_listed(
    catalog: Catalog, scope: Scope, document: tuple[UUID, int]
) -> None:
    assert set(await catalog.current(scope, [document])) == {document[0]}
    assert await catalog.current(OTHER, [document]) == {}
    assert await catalog.list_collections(OTHER) == []
    await catalog.retry_document(scope, "papers", document[0])
    assert await catalog.claim("other", document[0]) is None
    assert await catalog.claim("acme", document[0]) is not None
