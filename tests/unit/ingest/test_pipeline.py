"""A document is served whole or not at all, whatever fails on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

import numpy as np
import pytest

from ingest.chunking import RecursiveChunker
from ingest.parse_cache import ParseCache, ResultTimes
from ingest.parsing import DocumentParseError
from ingest.pipeline import IngestPipeline
from ingest.publisher import open_publisher
from ingest.watch import open_watch
from rag.core.catalog import IndexStatistics
from rag.core.errors import CapacityError, EmbeddingError, OverloadedError, StoreError
from rag.core.media import TEXT
from rag.core.records import ByDocument, RecordBatch
from rag.core.types import ParseAttempt, ParsedDocument, Priority, Quality, Scope, Vectors
from rag.embedding.hashing import WordTokenizer
from rag.lexical import count_terms
from rag.telemetry import REGISTRY
from rag.testing import FakeEmbedder
from stores.memory import MemoryStore
from tests.unit.ingest.fakes import PHYSICAL, SCOPE, TENANT, MemoryBlobs, MemoryCatalog

TEXT_OF_TWO_LANGUAGES = "The crane lifts forty tonnes. " * 40 + "\n\n" + "港口的起重机每天检查一次。" * 40


class InlineParser:
    """Reads UTF-8 in this process; ``result`` is returned or raised instead where it is set."""

    def __init__(self) -> None:
        self.result: ParsedDocument | Exception | None = None
        self.calls = 0

    async def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        from ingest.parsing.parsers.text import TextParser

        self.calls += 1
        if isinstance(self.result, Exception):
            raise self.result
        parsed = self.result or TextParser().parse(content, source=source, media_type=media_type)
        return replace(parsed, attempts=(ParseAttempt(parser="text", tier=1, seconds=0.1, outcome="ok"),))

    async def parse_fully(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        return await self.parse(content, source=source, media_type=media_type)


class LeakyStore(MemoryStore):
    """Loses or refuses what it is told to."""

    lose_last = False
    fail_on_upsert = 0
    upserts = 0

    async def upsert(self, collection: str, scope: Scope, batch: RecordBatch) -> None:
        self.upserts += 1
        if self.upserts == self.fail_on_upsert:
            raise StoreError
        await super().upsert(collection, scope, batch)
        if self.lose_last:
            from rag.core.records import ByIds

            await super().delete(collection, scope, ByIds(ids=(batch.ids[-1],)))


class BrokenEmbedder(FakeEmbedder):
    kind = ""

    async def embed(
        self, texts: Sequence[str], *, kind: Literal["query", "document"], priority: Priority = Priority.INTERACTIVE
    ) -> Vectors:
        vectors = await super().embed(texts, kind=kind, priority=priority)
        if self.kind == "short":
            return vectors[:-1]
        if self.kind == "wide":
            return np.concatenate([vectors, vectors], axis=1)
        if self.kind == "nan":
            vectors[0, 0] = np.nan
        if self.kind == "zero":
            vectors[-1] = 0
        return vectors


@dataclass
class Bench:
    catalog: MemoryCatalog
    blobs: MemoryBlobs
    store: LeakyStore
    embedder: BrokenEmbedder
    parser: InlineParser
    pipeline: IngestPipeline

    async def upload(self, content: str | bytes, source: str = "notes.txt") -> UUID:
        raw = content.encode() if isinstance(content, str) else content
        return self.catalog.add(await self.blobs.put(SCOPE, raw), media_type=TEXT, source=source)

    async def run(self, document: UUID) -> None:
        await self.pipeline.process(TENANT, document)

    async def held(self, document: UUID, generation: int | None = None) -> int:
        return await self.store.count(PHYSICAL, SCOPE, ByDocument(document=document, generation=generation))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    embedder, store, blobs, parser = BrokenEmbedder(), LeakyStore(), MemoryBlobs(), InlineParser()
    statistics = IndexStatistics(chunks=10, total_terms=1000)
    catalog = MemoryCatalog(dimension=embedder.dimension, model=embedder.model, statistics=statistics)
    await store.create_collection(PHYSICAL, catalog.view.spec)
    chunker = RecursiveChunker(WordTokenizer(), max_tokens=40, min_tokens=4, overlap_tokens=0)
    times = ResultTimes(summary=3600, fragment=300, empty=60)
    async with open_publisher(catalog, interval=0.01) as publisher, open_watch(catalog, interval=0.01) as watch:
        pipeline = IngestPipeline(
            catalog=catalog, blobs=blobs, store=store, embedder=embedder, parser=parser, chunker=chunker,
            publisher=publisher, cache=ParseCache(catalog, times), watch=watch, concurrency=1, held_bytes=2**20,
        )  # fmt: skip
        yield Bench(catalog, blobs, store, embedder, parser, pipeline)


async def test_a_document_is_published_with_its_chunks_text_and_statistics(bench: Bench) -> None:
    document = await bench.upload(TEXT_OF_TWO_LANGUAGES)

    await bench.run(document)

    row = bench.catalog.rows[document]
    publication = row.publication
    assert publication is not None
    assert publication.text_blob is not None
    records = [r async for page in bench.store.scroll(PHYSICAL, SCOPE) for r in page]
    text = bench.blobs.contents[publication.text_blob.sha256].decode()
    assert row.state == "published"
    assert publication.chunks == len(records) == await bench.held(document, row.generation) > 2
    assert all(text[record.start : record.end] == record.text for record in records)
    assert publication.total_terms == sum(count_terms(record.text).length for record in records)
    assert sum(publication.document_counts.values()) == sum(len(record.terms) for record in records)
    assert row.stages[0] == "parse"
    assert row.stages[-1] == "publish"


async def test_waiting_for_a_publish_does_not_keep_the_next_documents_from_being_worked_on(bench: Bench) -> None:
    documents = [await bench.upload(f"A line of words that is document {number} of eight.") for number in range(8)]

    await asyncio.gather(*map(bench.run, documents))

    assert {bench.catalog.rows[document].state for document in documents} == {"published"}
    assert len(bench.catalog.commits) < len(documents)


async def test_embedding_is_asked_for_in_bounded_batches_of_bulk_priority(bench: Bench) -> None:
    document = await bench.upload("A short line of words that is a paragraph of its own here.\n\n" * 700)

    await bench.run(document)

    assert {(kind, priority) for _, kind, priority in bench.embedder.calls} == {("document", Priority.BULK)}
    assert max(len(texts) for texts, _, _ in bench.embedder.calls) == 64
    assert bench.store.upserts > 1
    assert bench.catalog.rows[document].state == "published"


async def test_an_empty_file_fails_as_empty_without_being_parsed(bench: Bench) -> None:
    document = await bench.upload(b"")

    await bench.run(document)

    assert (bench.catalog.rows[document].state, bench.catalog.rows[document].code) == ("failed", "empty_file")
    assert bench.parser.calls == 0


async def test_a_document_without_text_is_published_under_its_name(bench: Bench) -> None:
    bench.parser.result = ParsedDocument(text="", blocks=(), quality=Quality.NO_TEXT)
    document = await bench.upload(b"%PDF", source="扫描/合同.pdf")

    await bench.run(document)

    publication = bench.catalog.rows[document].publication
    assert publication is not None
    assert (publication.quality, publication.chunks, publication.characters) == (Quality.NO_TEXT, 1, 0)
    [[record]] = [page async for page in bench.store.scroll(PHYSICAL, SCOPE)]
    assert (record.text, record.quality) == ("扫描/合同.pdf", Quality.NO_TEXT)


async def test_a_parse_failure_ends_the_document_with_its_code_and_attempts(bench: Bench) -> None:
    attempt = ParseAttempt(parser="pdf", tier=1, seconds=15.0, outcome="timeout", code="parse_timeout")
    bench.parser.result = DocumentParseError("too slow", code="parse_timeout", attempts=(attempt,))
    document = await bench.upload("x")

    await bench.run(document)

    row = bench.catalog.rows[document]
    assert (row.state, row.code) == ("failed", "parse_timeout")
    assert row.history[0]["outcome"] == "timeout"


@pytest.mark.parametrize("kind", ["short", "wide", "nan", "zero"])
async def test_wrong_vectors_end_the_document_and_nothing_of_their_batch_is_written(bench: Bench, kind: str) -> None:
    bench.embedder.kind = kind
    document = await bench.upload("words in a text")

    await bench.run(document)

    assert bench.catalog.rows[document].code == "embedding_invalid"
    assert await bench.held(document) == 0


async def test_another_model_than_the_collections_is_a_mismatch(bench: Bench) -> None:
    bench.embedder.model = "another"
    document = await bench.upload("words in a text")

    await bench.run(document)

    assert bench.catalog.rows[document].code == "model_mismatch"


@pytest.mark.parametrize("error", [EmbeddingError(), CapacityError()])
async def test_an_outage_of_the_embedder_is_raised_and_the_old_version_stays_served(
    bench: Bench, error: Exception
) -> None:
    document = await bench.upload("the first version")
    await bench.run(document)
    served = bench.catalog.rows[document].generation
    bench.catalog.rows[document].state = "queued"
    bench.embedder.error = error

    with pytest.raises(type(error)):
        await bench.run(document)
    during = bench.catalog.rows[document].generation
    bench.embedder.error = None
    await bench.run(document)

    assert during == served
    assert bench.catalog.released == [2]
    assert bench.catalog.rows[document].generation != served
    assert bench.catalog.rows[document].state == "published"


async def test_a_full_queue_is_an_outage(bench: Bench) -> None:
    bench.embedder.error = OverloadedError(retry_after=2.0)
    document = await bench.upload("words")

    with pytest.raises(CapacityError) as caught:
        await bench.run(document)

    assert caught.value.retry_after == 2.0


async def test_a_store_that_loses_a_chunk_is_noticed_before_anything_is_current(bench: Bench) -> None:
    bench.store.lose_last = True
    document = await bench.upload("words in a text")

    with pytest.raises(StoreError):
        await bench.run(document)

    assert bench.catalog.rows[document].generation is None


async def test_a_store_that_fails_in_the_middle_leaves_nothing_current_and_the_retry_succeeds(bench: Bench) -> None:
    bench.store.fail_on_upsert = 2
    document = await bench.upload("A short line of words that is a paragraph of its own here.\n\n" * 700)

    with pytest.raises(StoreError):
        await bench.run(document)
    after_failure = bench.catalog.rows[document].generation
    await bench.run(document)

    row = bench.catalog.rows[document]
    assert after_failure is None
    assert row.publication is not None
    assert await bench.held(document, row.generation) == row.publication.chunks


async def test_a_superseded_attempt_stops_and_removes_its_own_records_only(bench: Bench) -> None:
    document = await bench.upload("the first version of the text")
    await bench.run(document)
    served = bench.catalog.rows[document].generation
    bench.catalog.rows[document].state = "queued"
    embed = bench.embedder.embed

    async def overtaken(texts: Sequence[str], **options: object) -> Vectors:
        bench.catalog.rows[document].attempt += 1
        return await embed(texts, **options)  # type: ignore[arg-type]

    bench.embedder.embed = overtaken  # type: ignore[assignment]
    await bench.run(document)

    assert bench.catalog.rows[document].generation == served
    assert await bench.held(document) == await bench.held(document, served) == 1


async def test_a_publish_that_lost_its_right_removes_its_records(bench: Bench) -> None:
    document = await bench.upload("words in a text")
    publish = bench.catalog.publish

    async def overtaken(publications: Sequence[object]) -> list[bool]:
        bench.catalog.rows[document].attempt += 1
        return await publish(publications)  # type: ignore[arg-type]

    bench.catalog.publish = overtaken  # type: ignore[assignment,method-assign]
    await bench.run(document)

    assert bench.catalog.rows[document].state == "running"
    assert await bench.held(document) == 0


async def test_a_document_that_is_done_is_not_processed_again(bench: Bench) -> None:
    document = await bench.upload("words")
    await bench.run(document)

    await bench.run(document)

    assert bench.parser.calls == 1


async def test_a_cancelled_attempt_serves_nothing_and_can_be_repeated(bench: Bench) -> None:
    gate = asyncio.Event()
    embed = bench.embedder.embed

    async def held_up(texts: Sequence[str], **options: object) -> Vectors:
        gate.set()
        await asyncio.Event().wait()
        return await embed(texts, **options)  # type: ignore[arg-type]

    bench.embedder.embed = held_up  # type: ignore[assignment]
    document = await bench.upload("words")
    task = asyncio.create_task(bench.run(document))
    await gate.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    bench.embedder.embed = embed  # type: ignore[method-assign]
    await bench.run(document)

    assert bench.catalog.released == [1]
    assert bench.catalog.rows[document].state == "published"
    assert len(bench.catalog.commits) == 1


async def test_two_documents_of_the_same_bytes_are_two_documents(bench: Bench) -> None:
    first, second = await bench.upload("same words"), await bench.upload("same words")

    await asyncio.gather(bench.run(first), bench.run(second))

    assert await bench.held(first) == await bench.held(second) == 1


async def test_documents_are_counted_by_format_and_by_the_quality_that_was_published(bench: Bench) -> None:
    def counted(tier: str, outcome: str) -> float:
        labels = {"format": "text", "tier": tier, "outcome": outcome}
        return REGISTRY.get_sample_value("rag_ingest_documents_total", labels) or 0.0

    before = counted("full", "published"), counted("none", "failed")
    await bench.run(await bench.upload("words"))
    await bench.run(await bench.upload(b""))

    assert (counted("full", "published"), counted("none", "failed")) == (before[0] + 1, before[1] + 1)
