"""What the doctor finds and mends, with a real catalog and real files, and how a rebuild goes on."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest

from rag.blobs import FileBlobs, open_blobs
from rag.catalog import Catalog
from rag.catalog.inspection import StoreNote, peek_store
from rag.core.catalog import BlobRef, CollectionView, Receipt
from rag.core.errors import CollectionNotFoundError, StoreChangedError, StoreError
from rag.core.ports import Selector
from rag.core.records import ByDocument, Record, RecordBatch, record_id
from rag.core.types import DocumentState, Metadata, Scope
from rag.maintenance import Doctor, Outcome, Parts, Rebuild, Report, confirm_store
from stores.memory import MemoryStore

Publish = Callable[..., Awaitable[int]]
Upload = Callable[..., Awaitable[Receipt]]
Index = Callable[..., Awaitable[UUID]]

SCOPE = Scope(tenant="acme", groups=None)
NOTE = StoreNote(kind="memory", location="here")


@pytest.fixture
async def blobs(tmp_path: Path) -> AsyncIterator[FileBlobs]:
    async with open_blobs(tmp_path / "blobs") as opened:
        yield opened


@pytest.fixture
async def parts(catalog: Catalog, blobs: FileBlobs, papers: CollectionView, tmp_path: Path) -> Parts:
    store = MemoryStore()
    await store.create_collection(papers.physical, papers.spec)
    return Parts(catalog=catalog, store=store, blobs=blobs, data_dir=tmp_path, moment=0.0)


@pytest.fixture
def index(parts: Parts, papers: CollectionView, scope: Scope, upload: Upload, publish: Publish) -> Index:
    """Uploads and publishes a document of two chunks, its files and records with it."""

    async def run(source: str, metadata: Metadata | None = None) -> UUID:
        original = await parts.blobs.put(scope, source.encode())
        await parts.blobs.put(scope, b"parsed " + source.encode())
        receipt = await upload(source, blob=original, metadata=metadata or {})
        generation = await publish(receipt.document.id, text=source)
        await write(parts, papers, receipt.document.id, generation, metadata=metadata or {})
        return receipt.document.id

    return run


async def write(
    parts: Parts, papers: CollectionView, document: UUID, generation: int, *, metadata: Metadata, tenant: str = "acme"
) -> None:
    """Two records of a generation."""
    records = [
        Record(
            id=record_id(
                tenant=tenant, collection=papers.physical, document=document, generation=generation, index=number
            ),
            vector=np.array([1, 0, 0], dtype=np.float32),
            terms={1: 1.0},
            text="text",
            start=0,
            end=4,
            tenant=tenant,
            document=document,
            generation=generation,
            index=number,
            metadata=metadata,
        )
        for number in range(2)
    ]
    await parts.store.upsert(papers.physical, Scope(tenant=tenant, groups=None), RecordBatch.of(records))


async def examine(parts: Parts, *, repair: bool = False) -> Report:
    return await Doctor(parts, repair=repair, progress=lambda _: None).examine()


async def codes(parts: Parts, *, repair: bool = False) -> dict[str, int]:
    return {finding.code: finding.count for finding in (await examine(parts, repair=repair)).findings}


async def state(parts: Parts, document: UUID) -> tuple[DocumentState, str | None]:
    view = await parts.catalog.get_document(SCOPE, "papers", document)
    return view.state, view.error_code


async def test_nothing_is_found_where_nothing_is_wrong(parts: Parts, index: Index) -> None:
    await index("年报.txt", {"year": 2026, "at": "2026-01-02T03:04:05Z", "tags": ["a", "锚"], "note": None, "x": 1.5})
    await index("b.txt")

    report = await examine(parts)

    assert report.as_json() == {
        "ok": True,
        "looked_at": {"collections": 1, "documents": 2, "blobs": 4, "records": 4},
        "findings": [],
    }


async def test_a_collection_that_is_not_there_cannot_be_looked_at(parts: Parts) -> None:
    with pytest.raises(CollectionNotFoundError):
        await Doctor(parts, repair=False, progress=lambda _: None).examine("nowhere")


async def test_records_of_another_generation_in_place_of_the_served_one_are_told_apart(
    parts: Parts, papers: CollectionView, index: Index
) -> None:
    document = await index("a.txt")
    await parts.store.delete(papers.physical, SCOPE, ByDocument(document=document))
    await write(parts, papers, document, 10_000, metadata={})

    assert await codes(parts) == {"records_missing": 1, "records_orphaned": 2}
    assert await codes(parts, repair=True) == {"records_missing": 1, "records_orphaned": 2}
    assert await parts.store.count(papers.physical, SCOPE) == 0
    assert await state(parts, document) == (DocumentState.QUEUED, None)
    attempt = await parts.catalog.claim("acme", document)
    assert attempt is not None
    assert attempt.generation > 10_000


async def test_a_document_without_records_and_original_says_so_and_is_not_queued(
    parts: Parts, papers: CollectionView, index: Index, blob: Callable[[str], BlobRef]
) -> None:
    document = await index("a.txt")
    await parts.store.delete(papers.physical, SCOPE, ByDocument(document=document))
    await parts.blobs.delete(SCOPE, blob("a.txt"))

    report = await examine(parts, repair=True)

    assert {finding.code for finding in report.findings if finding.open} == {"records_missing", "original_missing"}
    assert await state(parts, document) == (DocumentState.FAILED, "original_lost")


async def test_a_collection_of_another_specification_is_made_anew(
    parts: Parts, papers: CollectionView, index: Index
) -> None:
    document = await index("a.txt")
    await parts.store.drop_collection(papers.physical)
    await parts.store.create_collection(papers.physical, replace(papers.spec, filterable={}))

    assert await codes(parts) == {"collection_differs": 1}
    assert await codes(parts, repair=True) == {"collection_differs": 1}
    assert await parts.store.describe_collection(papers.physical) == papers.spec
    assert await state(parts, document) == (DocumentState.QUEUED, None)
    assert await codes(parts) == {}


async def test_surplus_records_and_those_of_another_tenant_are_found(
    parts: Parts, papers: CollectionView, index: Index
) -> None:
    document = await index("a.txt")
    (served,) = (await parts.catalog.inspected_documents("acme", [document])).values()
    scrolled = [each async for batch in parts.store.scroll(papers.physical, SCOPE) for each in batch]
    await parts.store.upsert(papers.physical, SCOPE, RecordBatch.of([replace(scrolled[0], id=uuid4())]))
    await write(parts, papers, uuid4(), served.generation or 0, metadata={}, tenant="stranger")

    report = await examine(parts, repair=True)

    assert {finding.code: finding.count for finding in report.findings} == {"records_surplus": 1, "records_foreign": 2}
    assert [finding.code for finding in report.findings if finding.open] == ["records_foreign"]


async def test_served_documents_that_the_statistics_do_not_know_are_queued(
    parts: Parts, index: Index, url: str
) -> None:
    document = await index("a.txt")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM anchorage.generation_terms")

    assert set(await codes(parts, repair=True)) == {"statistics_differ", "document_uncounted"}
    assert await state(parts, document) == (DocumentState.QUEUED, None)


async def test_metadata_that_a_job_is_about_to_write_is_no_finding(parts: Parts, index: Index) -> None:
    document = await index("a.txt", {"year": 2020})

    await parts.catalog.update_metadata(SCOPE, "papers", document, {"year": 2021})

    assert await codes(parts) == {}


async def test_young_files_without_a_row_and_known_garbage_are_no_finding(
    parts: Parts, papers: CollectionView, index: Index, tmp_path: Path
) -> None:
    document = await index("a.txt")
    await parts.blobs.put(SCOPE, b"an upload under way")
    await parts.catalog.delete_document(SCOPE, "papers", document)

    assert await parts.store.count(papers.physical, SCOPE) == 2
    assert await codes(parts) == {}


async def test_files_of_a_tenant_that_is_unknown_are_deleted_when_they_are_old(
    parts: Parts, index: Index, tmp_path: Path
) -> None:
    await index("a.txt")
    stray = await parts.blobs.put(Scope(tenant="gone", groups=None), b"stray")
    path = next((tmp_path / "blobs").glob(f"*/*/{stray.sha256}"))
    os.utime(path, (0, 0))

    assert await codes(parts, repair=True) == {"blob_unreferenced": 1}
    assert not path.exists()
    assert len(list((tmp_path / "blobs").glob("*/*/*"))) == 2


async def test_the_address_of_a_service_that_has_gone_is_a_leftover(parts: Parts, tmp_path: Path) -> None:
    ended = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await ended.wait()
    (tmp_path / "run").mkdir()
    address = tmp_path / "run" / "service.json"
    address.write_text(json.dumps({"pid": os.getpid(), "url": "http://127.0.0.1:1"}))
    living = await codes(parts)
    address.write_text(json.dumps({"pid": ended.pid, "url": "http://127.0.0.1:1"}))

    dead = await codes(parts, repair=True)

    assert (living, dead) == ({}, {"leftover_file": 1})
    assert not address.exists()


class StubbornStore(MemoryStore):
    """Deletes nothing."""

    async def delete(self, collection: str, scope: Scope, selector: Selector) -> None:
        raise StoreError("read only")


async def test_a_repair_that_fails_is_left_and_keeps_no_other_from_being_made(
    parts: Parts, papers: CollectionView, index: Index
) -> None:
    document = await index("a.txt")
    stubborn = replace(parts, store=StubbornStore())
    await stubborn.store.create_collection(papers.physical, papers.spec)
    await write(stubborn, papers, uuid4(), 10_000, metadata={})

    outcomes = {finding.code: finding.outcomes for finding in (await examine(stubborn, repair=True)).findings}

    assert outcomes == {"records_missing": {Outcome.QUEUED: 1}, "records_orphaned": {Outcome.LEFT: 2}}
    assert await state(parts, document) == (DocumentState.QUEUED, None)


async def test_a_rebuild_that_was_cut_off_queues_only_what_it_had_not(
    parts: Parts, papers: CollectionView, index: Index, publish: Publish
) -> None:
    done, open_ = await index("done.txt"), await index("open.txt")
    await parts.catalog.begin_rebuild([papers], NOTE)
    await parts.catalog.queue_again(list((await parts.catalog.inspected_documents("acme", [done])).values()))
    await publish(done)

    first = await Rebuild(parts, [papers], NOTE).begin()
    again = await Rebuild(parts, [papers], NOTE).begin()
    left = (await Rebuild(parts, [papers], NOTE).progress()).left
    await publish(open_)
    [now] = [each async for each in Rebuild(parts, [papers], NOTE).watch()]
    anew = await Rebuild(parts, [papers], NOTE).begin()

    assert (first, again, left) == ((0, 1), (0, 0), 1)
    assert (now.left, now.failed) == (0, 0)
    assert anew == (0, 2)


async def test_a_rebuild_without_a_worker_ends_its_wait(parts: Parts, papers: CollectionView, index: Index) -> None:
    await index("a.txt")
    rebuild = Rebuild(parts, [papers], NOTE)
    await rebuild.begin()

    [now] = [each async for each in rebuild.watch()]

    assert (now.left, now.workers) == (1, 0)


async def test_a_rebuild_names_documents_whose_original_is_lost(
    parts: Parts, papers: CollectionView, index: Index, blob: Callable[[str], BlobRef]
) -> None:
    document = await index("a.txt")
    await parts.blobs.delete(SCOPE, blob("a.txt"))
    rebuild = Rebuild(parts, [papers], NOTE)

    assert await rebuild.begin() == (0, 0)
    assert ((await rebuild.progress()).left, (await rebuild.progress()).failed) == (0, 1)
    assert await state(parts, document) == (DocumentState.FAILED, "original_lost")
    assert (await parts.catalog.get_document(SCOPE, "papers", document)).generation is not None


async def test_a_store_that_moved_with_its_data_is_taken_and_an_empty_one_refused(
    parts: Parts, papers: CollectionView, url: str
) -> None:
    await confirm_store(parts.catalog, parts.store, NOTE)
    moved = replace(NOTE, location="there")

    await confirm_store(parts.catalog, parts.store, moved)
    kept = (await parts.catalog.noted_store(), await peek_store(url))
    with pytest.raises(StoreChangedError, match="rebuild --all"):
        await confirm_store(parts.catalog, MemoryStore(), NOTE)
    with pytest.raises(StoreChangedError, match="'memory'"):
        await confirm_store(parts.catalog, parts.store, replace(moved, kind="other"))

    assert kept == (moved, moved)
    await parts.catalog.delete_collection(SCOPE, "papers")
    await confirm_store(parts.catalog, MemoryStore(), NOTE)
