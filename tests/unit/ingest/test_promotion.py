"""Degraded documents: marked, kept for equal bytes, parsed again in the background, stopped with their right."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import pytest

from ingest.chunking import RecursiveChunker
from ingest.parse_cache import ParseCache, ResultTimes
from ingest.parsing import DocumentParseError
from ingest.pipeline import IngestPipeline
from ingest.publisher import open_publisher
from ingest.watch import open_watch
from rag.core.errors import ParseError
from rag.core.types import Block, ParseAttempt, ParsedDocument, Quality
from rag.embedding.hashing import WordTokenizer
from rag.testing import FakeEmbedder
from stores.memory import MemoryStore
from tests.unit.ingest.fakes import PHYSICAL, SCOPE, TENANT, MemoryBlobs, MemoryCatalog


def parsed(text: str, quality: Quality, *, fault: str | None = None) -> ParsedDocument:
    blocks = (Block(start=0, end=len(text), headings=("港口", "Tariff"), page=2),) if text else ()
    attempts = (ParseAttempt(parser="pdf", tier=1, seconds=5.0, outcome="timeout", code="parse_timeout"),)
    structure = {"pages": 3, "headings": ["港口"]}
    return ParsedDocument(
        text=text, blocks=blocks, title="Title", quality=quality, fault=fault, structure=structure, attempts=attempts
    )


SUMMARY = parsed("A summary of the tariff. 摘要。", Quality.SUMMARY, fault="parse_timeout")
FULL = parsed("The whole tariff, word by word. 全文。", Quality.FULL)


class TieredParser:
    """Gives what it is told to, at once or after a gate; ``stopped`` counts parses that were cancelled."""

    def __init__(self) -> None:
        self.first: ParsedDocument | Exception = SUMMARY
        self.full: ParsedDocument | Exception = FULL
        self.calls: list[str] = []
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()
        self.stopped = 0

    async def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        return await self._give("parse", self.first)

    async def parse_fully(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        return await self._give("parse_fully", self.full)

    async def _give(self, name: str, result: ParsedDocument | Exception) -> ParsedDocument:
        self.calls.append(name)
        self.entered.set()
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.stopped += 1
                raise
        if isinstance(result, Exception):
            raise result
        return result


@dataclass
class Bench:
    catalog: MemoryCatalog
    blobs: MemoryBlobs
    store: MemoryStore
    parser: TieredParser
    pipeline: IngestPipeline

    async def upload(self, content: bytes = b"%PDF-1.4 bytes", source: str = "tariff.pdf") -> UUID:
        return self.catalog.add(await self.blobs.put(SCOPE, content), media_type="application/pdf", source=source)

    async def qualities(self) -> set[Quality]:
        return {record.quality async for page in self.store.scroll(PHYSICAL, SCOPE) for record in page}


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    embedder, store, blobs, parser = FakeEmbedder(), MemoryStore(), MemoryBlobs(), TieredParser()
    catalog = MemoryCatalog(dimension=embedder.dimension, model=embedder.model)
    await store.create_collection(PHYSICAL, catalog.view.spec)
    times = ResultTimes(summary=3600, fragment=300, empty=60)
    async with open_publisher(catalog, interval=0.01) as publisher, open_watch(catalog, interval=0.01) as watch:
        pipeline = IngestPipeline(
            catalog=catalog, blobs=blobs, store=store, embedder=embedder, parser=parser,
            chunker=RecursiveChunker(WordTokenizer(), max_tokens=40, min_tokens=4, overlap_tokens=0),
            publisher=publisher, cache=ParseCache(catalog, times), watch=watch, concurrency=1, held_bytes=2**20,
        )  # fmt: skip
        yield Bench(catalog, blobs, store, parser, pipeline)


async def test_a_degraded_document_is_published_with_its_fault_structure_and_marked_chunks(bench: Bench) -> None:
    document = await bench.upload()

    await bench.pipeline.process(TENANT, document)

    row = bench.catalog.rows[document]
    assert row.publication is not None
    assert (row.state, row.code, row.publication.quality) == ("published", "parse_timeout", Quality.SUMMARY)
    assert row.publication.structure == SUMMARY.structure
    assert row.publication.parse_attempts == SUMMARY.attempts
    assert await bench.qualities() == {Quality.SUMMARY}


async def test_a_promotion_replaces_the_degraded_generation_with_the_full_one(bench: Bench) -> None:
    document = await bench.upload()
    await bench.pipeline.process(TENANT, document)
    degraded = bench.catalog.rows[document].generation

    await bench.pipeline.promote(TENANT, document)

    row = bench.catalog.rows[document]
    assert row.publication is not None
    assert (row.state, row.code, row.publication.quality) == ("published", None, Quality.FULL)
    assert row.generation != degraded
    assert bench.parser.calls == ["parse", "parse_fully"]


@pytest.mark.parametrize(
    "full",
    [DocumentParseError("too slow", code="parse_timeout", attempts=SUMMARY.attempts), parsed("", Quality.NO_TEXT)],
    ids=["too slow", "no text"],
)
async def test_a_promotion_that_gives_no_more_leaves_what_is_served(
    bench: Bench, full: ParsedDocument | Exception
) -> None:
    document = await bench.upload()
    await bench.pipeline.process(TENANT, document)
    before = bench.catalog.rows[document].generation
    bench.parser.full = full

    await bench.pipeline.promote(TENANT, document)

    row = bench.catalog.rows[document]
    assert (row.state, row.generation, row.code) == ("published", before, "parse_timeout")


async def test_equal_bytes_get_the_degraded_result_without_another_parse(bench: Bench) -> None:
    first, second = await bench.upload(), await bench.upload(source="copy.pdf")

    await bench.pipeline.process(TENANT, first)
    await bench.pipeline.process(TENANT, second)

    copy = bench.catalog.rows[second].publication
    assert copy is not None
    assert bench.parser.calls == ["parse"]
    assert (copy.quality, copy.fault, copy.structure) == (Quality.SUMMARY, "parse_timeout", SUMMARY.structure)
    assert [(each.parser, each.tier, each.outcome) for each in copy.parse_attempts] == [("cache", 2, "ok")]
    records = [record async for page in bench.store.scroll(PHYSICAL, SCOPE) for record in page]
    assert {(record.text, record.headings, record.page) for record in records} == {
        (SUMMARY.text, ("港口", "Tariff"), 2)
    }


@pytest.mark.parametrize("kept", [b"", b"no zlib", zlib.compress(b"{"), zlib.compress(b'{"quality": "summary"}')])
async def test_a_kept_result_that_cannot_be_read_is_parsed_anew(bench: Bench, kept: bytes) -> None:
    first, second = await bench.upload(), await bench.upload()
    await bench.pipeline.process(TENANT, first)
    bench.catalog.results.update({key: (kept, ttl) for key, (_, ttl) in bench.catalog.results.items()})

    await bench.pipeline.process(TENANT, second)

    assert bench.parser.calls == ["parse", "parse"]
    assert bench.catalog.rows[second].state == "published"


async def test_other_bytes_another_type_and_a_retry_are_parsed(bench: Bench) -> None:
    first, other = await bench.upload(), await bench.upload(b"%PDF-1.4 other")
    typed, retried = await bench.upload(), await bench.upload()
    bench.catalog.rows[typed].media_type = "text/html"
    bench.catalog.rows[retried].fresh = True

    for document in (first, other, typed, retried):
        await bench.pipeline.process(TENANT, document)

    assert bench.parser.calls == ["parse"] * 4


@pytest.mark.parametrize(
    ("result", "seconds"),
    [
        (SUMMARY, 3600.0),
        (parsed("Raw words", Quality.FRAGMENT, fault="parse_timeout"), 300.0),
        (parsed("", Quality.NO_TEXT), 60.0),
        (ParseError("nothing in it", code="empty_output"), 60.0),
        (ParseError("locked", code="encrypted"), None),
        (FULL, None),
    ],
    ids=["summary", "fragment", "no text", "empty", "another failure", "full"],
)
async def test_a_result_is_kept_as_long_as_its_kind_says(
    bench: Bench, result: ParsedDocument | Exception, seconds: float | None
) -> None:
    bench.parser.first = result
    first, second = await bench.upload(), await bench.upload()

    await bench.pipeline.process(TENANT, first)
    await bench.pipeline.process(TENANT, second)

    assert [ttl for _, ttl in bench.catalog.results.values()] == ([] if seconds is None else [seconds])
    assert bench.parser.calls == (["parse", "parse"] if seconds is None else ["parse"])
    assert bench.catalog.rows[first].state == bench.catalog.rows[second].state
    assert bench.catalog.rows[first].code == bench.catalog.rows[second].code


@pytest.mark.parametrize("promotion", [False, True], ids=["upload", "promotion"])
async def test_a_parse_is_stopped_soon_after_its_document_is_deleted(bench: Bench, promotion: bool) -> None:
    document = await bench.upload()
    run = bench.pipeline.process
    if promotion:
        await run(TENANT, document)
        run, bench.parser.entered = bench.pipeline.promote, asyncio.Event()
    bench.parser.gate = asyncio.Event()
    running = asyncio.create_task(run(TENANT, document))
    await asyncio.wait_for(bench.parser.entered.wait(), 10)

    del bench.catalog.rows[document]

    await asyncio.wait_for(running, 10)
    assert bench.parser.stopped == 1


async def test_a_promotion_takes_no_slot_from_uploads(bench: Bench) -> None:
    slow, fresh = await bench.upload(), await bench.upload(b"%PDF-1.4 fresh")
    await bench.pipeline.process(TENANT, slow)
    bench.parser.gate, bench.parser.entered = asyncio.Event(), asyncio.Event()
    promoting = asyncio.create_task(bench.pipeline.promote(TENANT, slow))
    await asyncio.wait_for(bench.parser.entered.wait(), 10)
    gate, bench.parser.gate = bench.parser.gate, None

    await asyncio.wait_for(bench.pipeline.process(TENANT, fresh), 10)

    assert bench.catalog.rows[fresh].state == "published"
    assert not promoting.done()
    gate.set()
    await promoting
