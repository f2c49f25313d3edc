"""A real worker on a real catalog and store: every document ends, none is lost, none is served half."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from uuid import UUID

import psutil
import pytest

from ingest.parsing import open_parser
from ingest.wiring import GRACE_SECONDS, open_ingest
from ingest.worker import run_worker
from rag.core.catalog import CollectionView, DocumentView, Receipt
from rag.core.media import TEXT, detect
from rag.core.records import ByDocument, CollectionSpec
from rag.core.types import DocumentState, Quality, Scope
from rag.embedding import HashEmbedder
from rag.lexical import count_terms, query_weights
from rag.settings import Settings
from rag.wiring import Storage, open_storage
from tests.unit.ingest.parsing.making import pdf, word

SCOPE = Scope(groups=None)
PATIENCE = 120.0
WORKER = (
    "import asyncio, sys; from ingest.wiring import run_worker; from rag.settings import Settings; "
    "asyncio.run(run_worker(Settings.model_validate_json(sys.argv[1])))"
)


async def collection(storage: Storage) -> CollectionView:
    spec = CollectionSpec(dimension=64)
    view, _ = await storage.catalog.create_collection(SCOPE, "手册", embedding_model="hash-64", spec=spec)
    await storage.store.create_collection(view.physical, spec)
    return view


async def upload(storage: Storage, source: str, content: bytes | str) -> Receipt:
    raw = content.encode() if isinstance(content, str) else content
    blob = await storage.blobs.put(SCOPE, raw)
    media_type = detect(source, raw[:4096], None)
    return await storage.catalog.create_document(
        SCOPE, "手册", source=source, blob=blob, media_type=media_type, metadata={}
    )


async def views(storage: Storage) -> dict[str, DocumentView]:
    page = await storage.catalog.list_documents(SCOPE, "手册", state=None, source=None, cursor=None, limit=200)
    return {view.source: view for view in page.items}


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not await condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.05)


async def all_ended(storage: Storage) -> bool:
    return all(view.state.terminal for view in (await views(storage)).values())


async def work(settings: Settings, done: Callable[[], Awaitable[bool]], *, grace: float = GRACE_SECONDS) -> None:
    """Run a worker in this process until ``done``."""
    stop = asyncio.Event()
    async with open_ingest(settings) as ingest, asyncio.TaskGroup() as group:
        group.create_task(
            run_worker(
                ingest.catalog.queue, ingest.pipeline, ingest.sweep, ingest.align, concurrency=2, stop=stop,
                grace=grace, stalled_after=settings.ingest.stalled_after,
            )
        )  # fmt: skip
        try:
            await until(done)
        finally:
            stop.set()


async def test_documents_of_every_format_are_published_or_failed_and_found(
    settings: Settings, storage: Storage, model_host: HashEmbedder
) -> None:
    view = await collection(storage)
    await upload(storage, "crane.pdf", pdf([["The crane lifts forty tonnes."]], title="Crane"))
    await upload(storage, "费用.docx", word(lambda document: document.add_paragraph("停泊费每天一百元。")))
    await upload(storage, "page.html", "<h1>Shore power</h1><p>Plug in at berth seven.</p>")
    await upload(storage, "notes.md", "# Waste\n\nOil goes into the blue bin.")
    await upload(storage, "table.csv", "ship,berth\nAnna,7\n")
    await upload(storage, "plain.txt", "潮汐表每天更新。".encode("gb18030"))
    await upload(storage, "scan.pdf", pdf([[]]))
    await upload(storage, "empty.txt", b"")
    await upload(storage, "broken.pdf", b"%PDF-1.4 cut")

    await work(settings, lambda: all_ended(storage))

    ended = await views(storage)
    failed = {source: each.error_code for source, each in ended.items() if each.state is DocumentState.FAILED}
    assert failed == {"empty.txt": "empty_file", "broken.pdf": "malformed"}
    assert ended["scan.pdf"].quality is Quality.NO_TEXT
    assert ended["plain.txt"].encoding == "gb18030"
    assert ended["crane.pdf"].title == "Crane"
    current = await storage.catalog.collection(SCOPE, "手册", terms=list(count_terms("停泊费").counts))
    terms = query_weights(
        count_terms("停泊费"), chunks=current.statistics.chunks, document_counts=current.document_counts
    )
    hits = await storage.store.lexical_search(view.physical, SCOPE, terms, limit=3)
    assert hits[0].document == ended["费用.docx"].id
    assert current.statistics.chunks == 7
    assert current.epoch >= 1


async def test_a_changed_document_replaces_the_old_one_and_its_records_are_swept(
    settings: Settings, storage: Storage, model_host: HashEmbedder
) -> None:
    view = await collection(storage)
    receipt = await upload(storage, "a.txt", "The first version.")
    await work(settings, lambda: all_ended(storage))
    first = (await views(storage))["a.txt"].generation
    await upload(storage, "a.txt", "The second version.")
    selector = ByDocument(document=receipt.document.id, generation=first)

    async def swept() -> bool:
        return await all_ended(storage) and await storage.store.count(view.physical, SCOPE, selector) == 0

    await work(settings, swept)

    assert (await views(storage))["a.txt"].generation != first
    assert await storage.store.count(view.physical, SCOPE) == 1
    assert (await storage.catalog.collection(SCOPE, "手册")).statistics.chunks == 1


async def test_metadata_that_only_the_catalog_took_in_is_written_to_the_store(
    settings: Settings, storage: Storage, model_host: HashEmbedder
) -> None:
    view = await collection(storage)
    receipt = await upload(storage, "a.txt", "Some text.")
    await work(settings, lambda: all_ended(storage))
    await storage.catalog.update_metadata(SCOPE, "手册", receipt.document.id, {"部门": "港务"})

    async def written() -> bool:
        records = [record async for batch in storage.store.scroll(view.physical, SCOPE) for record in batch]
        return [record.metadata for record in records] == [{"部门": "港务"}]

    await work(settings, written)

    assert (await storage.catalog.get_document(SCOPE, "手册", receipt.document.id)).state is DocumentState.PUBLISHED


async def start_worker(settings: Settings) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, settings.model_dump_json(), cwd=Path(__file__).parents[3]
    )


async def test_a_worker_killed_in_the_middle_loses_nothing_and_leaves_no_parser_behind(
    settings: Settings, storage: Storage, model_host: HashEmbedder
) -> None:
    view = await collection(storage)
    for number in range(40):
        await upload(storage, f"{number}.txt", f"Document {number} says what it says.")
    first = await start_worker(settings)

    async def some_published() -> bool:
        states = [each.state for each in (await views(storage)).values()]
        return states.count(DocumentState.PUBLISHED) >= 3

    await until(some_published)
    children = psutil.Process(first.pid).children(recursive=True)
    os.kill(first.pid, signal.SIGKILL)
    await first.wait()
    second = await start_worker(settings)
    await until(lambda: all_ended(storage))
    second.send_signal(signal.SIGTERM)
    code = await asyncio.wait_for(second.wait(), PATIENCE)

    ended = await views(storage)
    assert code == 0
    assert {each.state for each in ended.values()} == {DocumentState.PUBLISHED}
    assert (await storage.catalog.collection(SCOPE, "手册")).statistics.chunks == 40
    for each in ended.values():
        assert (
            await storage.store.count(view.physical, SCOPE, ByDocument(document=each.id, generation=each.generation))
            == 1
        )
    assert [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.parametrize("change", ["delete", "cancel", "retry"])
async def test_a_parser_stops_soon_when_its_document_is_changed(
    settings: Settings, storage: Storage, model_host: HashEmbedder, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    stuck = {TEXT: "tests.integration.ingest.slow_parser:StuckTextParser"}
    monkeypatch.setattr("ingest.wiring.open_parser", partial(open_parser, parsers=stuck))
    patient = settings.model_copy(
        update={"ingest": settings.ingest.model_copy(update={"full_parse_seconds": 600, "summary_seconds": 600})}
    )
    await collection(storage)
    document = (await upload(storage, "a.txt", "Some text.")).document.id
    catalog, seen = storage.catalog, list[DocumentView]()

    async def parsing_again() -> bool:
        page = await catalog.list_documents(SCOPE, "手册")
        seen[:] = page.items
        if change == "retry":
            return all(view.state is DocumentState.RUNNING and view.attempt == 2 for view in seen)
        return not (await catalog.job_counts()).get("doing")

    async def changed() -> bool:
        await until(lambda: _parsing(storage, document))
        await getattr(catalog, f"{change}_document")(SCOPE, "手册", document)
        await until(parsing_again)
        return True

    await work(patient, changed, grace=0.1)

    states = {"delete": [], "cancel": [DocumentState.CANCELLED], "retry": [DocumentState.RUNNING]}
    assert [view.state for view in seen] == states[change]
    assert _sleeping_children() == []


async def test_slow_documents_are_served_degraded_and_then_promoted(
    settings: Settings, storage: Storage, model_host: HashEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {TEXT: "tests.integration.ingest.slow_parser:SlowTextParser"}
    monkeypatch.setattr("ingest.wiring.open_parser", partial(open_parser, parsers=slow))
    hasty = {"full_parse_seconds": 0.5, "fast_parse_start_seconds": 0.1, "promotion_pause": 0.0}
    impatient = settings.model_copy(update={"ingest": settings.ingest.model_copy(update=hasty)})
    async with open_storage(impatient) as own:
        await collection(own)
        seen = dict[str, list[Quality | None]](a=[], b=[])
        await upload(own, "a.txt", "The crane lifts forty tonnes.")
        await upload(own, "b.txt", "The crane lifts forty tonnes.")

        async def all_full() -> bool:
            ended = await views(own)
            for source, qualities in seen.items():
                view = ended[f"{source}.txt"]
                if view.generation is not None and view.quality not in qualities:
                    qualities.append(view.quality)
            return all(qualities[-1:] == [Quality.FULL] for qualities in seen.values())

        await work(impatient, all_full)

        ended = await views(own)
    assert seen["a"] == seen["b"] == [Quality.SUMMARY, Quality.FULL]
    assert {view.state for view in ended.values()} == {DocumentState.PUBLISHED}
    assert [(view.error_code, view.promotion) for view in ended.values()] == [(None, None)] * 2
    for view in ended.values():
        assert [(each["outcome"], each["promotion"]) for each in view.attempts] == [
            ("published", False), ("published", True),
        ]  # fmt: skip


async def _parsing(storage: Storage, document: UUID) -> bool:
    return (await storage.catalog.get_document(SCOPE, "手册", document)).stage == "parse"


def _sleeping_children() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [each for each in children if any("ingest.parsing" in part for part in _command(each))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


async def test_documents_wait_out_a_model_host_that_is_not_there_yet(
    settings: Settings, storage: Storage, request: pytest.FixtureRequest
) -> None:
    await collection(storage)
    receipt = await upload(storage, "a.txt", "Words.")
    patient = settings.model_copy(update={"embedding": settings.embedding.model_copy(update={"timeout": 0.5})})

    async def tried() -> bool:
        view = await storage.catalog.get_document(SCOPE, "手册", receipt.document.id)
        return view.attempt >= 1 and view.state is DocumentState.QUEUED

    await work(patient, tried)
    view = await storage.catalog.get_document(SCOPE, "手册", receipt.document.id)

    assert view.error_code is None
    assert view.generation is None
