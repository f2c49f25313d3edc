"""Blobs go when nothing refers to them, and never under an upload of the same bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rag.blobs import FileBlobs, open_blobs
from rag.catalog import Catalog
from rag.core.catalog import CollectionView
from rag.core.errors import BlobError
from rag.core.types import Scope


@pytest.fixture
async def blobs(tmp_path: Path) -> AsyncIterator[FileBlobs]:
    """A blob folder."""
    async with open_blobs(tmp_path / "blobs") as opened:
        yield opened


async def test_the_blob_of_a_deleted_document_is_removed(
    catalog: Catalog, scope: Scope, papers: CollectionView, upload: Callable[..., Any], blobs: FileBlobs
) -> None:
    ref = await blobs.put(scope, b"text")
    document = (await upload("a.txt", blob=ref)).document.id
    kept = await catalog.sweep_blobs(blobs, older_than=0)
    await catalog.delete_document(scope, "papers", document)

    removed = await catalog.sweep_blobs(blobs, older_than=0)

    assert (kept, removed) == (0, 1)
    with pytest.raises(BlobError):
        await blobs.get(scope, ref)


async def test_a_blob_that_another_document_shares_stays(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], blobs: FileBlobs
) -> None:
    ref = await blobs.put(scope, b"same")
    first = (await upload("a.txt", blob=ref)).document.id
    await upload("b.txt", blob=ref)
    await catalog.delete_document(scope, "papers", first)

    assert await catalog.sweep_blobs(blobs, older_than=0) == 0
    assert await blobs.get(scope, ref) == b"same"


async def test_a_blob_of_another_tenant_stays(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], blobs: FileBlobs
) -> None:
    other = Scope(tenant="other", groups=None)
    ref = await blobs.put(scope, b"same")
    await blobs.put(other, b"same")
    document = (await upload("a.txt", blob=ref)).document.id
    await catalog.delete_document(scope, "papers", document)

    assert await catalog.sweep_blobs(blobs, older_than=0) == 1
    assert await blobs.get(other, ref) == b"same"


async def test_bytes_put_lately_stay_for_the_upload_that_follows(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], blobs: FileBlobs
) -> None:
    ref = await blobs.put(scope, b"text")
    document = (await upload("a.txt", blob=ref)).document.id
    await catalog.delete_document(scope, "papers", document)
    await blobs.put(scope, b"text")

    swept = await catalog.sweep_blobs(blobs)
    again = await upload("a.txt", blob=ref)

    assert swept == 0
    assert await blobs.get(scope, again.document.blob) == b"text"


async def test_a_replaced_upload_and_its_text_leave_their_blobs(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any], blobs: FileBlobs
) -> None:
    old, new = await blobs.put(scope, b"old"), await blobs.put(scope, b"new")
    document = (await upload("a.txt", blob=old)).document.id
    old_text = await blobs.put(scope, b"parsed old")
    await publish(document, text="old")
    await upload("a.txt", blob=new)
    await publish(document, text="new")

    await catalog.sweep_blobs(blobs, older_than=0)

    for gone in (old, old_text):
        with pytest.raises(BlobError):
            await blobs.get(scope, gone)
    assert await blobs.get(scope, new) == b"new"
