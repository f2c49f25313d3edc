"""One document from its bytes to being served: parse, chunk, embed, write, count back, publish.

Nothing of a document is current before its publish, and what was served before stays served until then.
A document without text is published all the same: its one chunk is its title, or its source where it has none,
marked ``no_text``, so that its metadata can be searched and filtered.

A degraded document is promoted in the same way, by a full parse in the background: it stays published and served
until the full one takes its place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import asdict, replace
from typing import Any, Protocol
from uuid import UUID

from ingest.indexing import Indexer, analyze
from ingest.parse_cache import ParseCache
from ingest.publisher import Publisher
from ingest.slots import ByteBudget, FairSlots
from ingest.watch import Watch
from rag.core.catalog import Attempt, Publication
from rag.core.errors import (
    AnchorageError,
    CapacityError,
    CollectionNotFoundError,
    IngestError,
    OverloadedError,
    ParseError,
    RequestError,
    SupersededError,
    UpstreamError,
)
from rag.core.media import FORMATS
from rag.core.ports import Blobs, Chunker, DocumentParser, Embedder, VectorStore
from rag.core.types import Block, Chunk, ParsedDocument, Quality
from rag.telemetry import INGEST_DOCUMENTS, stage_timer

_logger = logging.getLogger(__name__)

EMPTY_FILE = "empty_file"
NO_TEXT = "no_text"
_RELEASE_SECONDS = 5.0
_NO_TIER = "none"


class AttemptCatalog(Protocol):
    """The slice of the catalog that one document's processing takes; see ``IngestCatalog``."""

    async def claim(self, tenant: str, document: UUID) -> Attempt | None:
        """Take the right to process a document."""
        ...

    async def claim_promotion(self, tenant: str, document: UUID) -> Attempt | None:
        """Take the right to parse a degraded document again, while it stays published."""
        ...

    async def stage(self, attempt: Attempt, stage: str) -> None:
        """Show what is being done. Raises ``SupersededError``."""
        ...

    async def fail(self, attempt: Attempt, *, code: str, message: str, history: Sequence[Mapping[str, Any]]) -> None:
        """End the attempt as failed."""
        ...

    async def release(self, attempt: Attempt) -> None:
        """Give the right back, with the counted try."""
        ...


class IngestPipeline:
    """Processes documents, any number at a time; everything it holds is shared and safe for that.

    ``concurrency`` of them are claimed, parsed and embedded at a time, tenants in turn, within ``held_bytes`` of
    their files in memory. Those that wait for their publish do not count: publishes are gathered, and the machine
    works on the next documents meanwhile. Nor do promotions: their number is their caller's.
    """

    def __init__(
        self,
        *,
        catalog: AttemptCatalog,
        blobs: Blobs,
        store: VectorStore,
        embedder: Embedder,
        parser: DocumentParser,
        chunker: Chunker,
        publisher: Publisher,
        cache: ParseCache,
        watch: Watch,
        concurrency: int,
        held_bytes: int,
    ) -> None:
        self._slots = FairSlots(concurrency)
        self._memory = ByteBudget(held_bytes)
        self._cache = cache
        self._watch = watch
        self._catalog = catalog
        self._blobs = blobs
        self._indexer = Indexer(store, embedder)
        self._parser = parser
        self._chunker = chunker
        self._publisher = publisher

    async def process(self, tenant: str, document: UUID) -> None:
        """Process a document if there is something to do.

        What is wrong with the document ends it as failed, with a stable code. An outage or a full queue is
        raised as ``UpstreamError``, and is no try of the document: the job is to be run again. Cancelled, it leaves
        nothing that is served.
        """
        async with AsyncExitStack() as work:
            await work.enter_async_context(self._slots.hold(tenant))
            attempt = await self._catalog.claim(tenant, document)
            if attempt is not None:
                await self._run(attempt, worked=work.aclose)

    async def promote(self, tenant: str, document: UUID) -> None:
        """Parse a degraded document in full, if that is due; it stays as it is where that fails.

        Raises and is cancelled as :meth:`process`.
        """
        async with AsyncExitStack() as nothing:
            attempt = await self._catalog.claim_promotion(tenant, document)
            if attempt is not None:
                await self._run(attempt, worked=nothing.aclose)

    async def _run(self, attempt: Attempt, *, worked: Callable[[], Awaitable[None]]) -> None:
        outcome, tier = "interrupted", _NO_TIER
        try:
            outcome, tier = await self._attempt(attempt, worked=worked)
        except (UpstreamError, asyncio.CancelledError):
            await self._release(attempt)
            raise
        finally:
            named = f"promotion_{outcome}" if attempt.promotion else outcome
            INGEST_DOCUMENTS.labels(FORMATS.get(attempt.media_type, "other"), tier, named).inc()
            _logger.info(
                "attempt ended",
                extra={"action": "ingest_attempt", "document": str(attempt.document), "outcome": named},
            )

    async def _release(self, attempt: Attempt) -> None:
        """An outage or a stop is no try of the document. Where that fails it stays counted, and is claimed again."""
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._catalog.release(attempt)
        except (AnchorageError, TimeoutError):
            _logger.warning("a try stays counted", extra={"action": "release_failed"})

    async def _attempt(self, attempt: Attempt, *, worked: Callable[[], Awaitable[None]]) -> tuple[str, str]:
        """How it ended, and which quality is published."""
        try:
            publication = await self._watch.over(attempt, self._prepare(attempt))
            await worked()
            published = await self._publisher.publish(publication)
        except SupersededError:
            await self._withdraw(attempt)
            return "superseded", _NO_TIER
        except (CollectionNotFoundError, UpstreamError):
            raise
        except OverloadedError as error:
            raise CapacityError(error.message, retry_after=error.retry_after) from error
        except (IngestError, RequestError) as error:
            await self._fail(attempt, error)
            return "failed", _NO_TIER
        if not published:
            await self._withdraw(attempt)
            return "superseded", _NO_TIER
        return "published", str(publication.quality)

    async def _prepare(self, attempt: Attempt) -> Publication:
        """Everything up to the publish: the chunks are in the store and counted, the text is kept."""
        async with self._room(attempt):
            return await self._index(attempt, _readable(await self._parse(attempt), attempt))

    def _room(self, attempt: Attempt) -> AbstractAsyncContextManager[None]:
        """Promotions take no part: one that lasts would hold the others up."""
        return nullcontext() if attempt.promotion else self._memory.hold(attempt.blob.size)

    async def _index(self, attempt: Attempt, parsed: ParsedDocument) -> Publication:
        timings: dict[str, float] = {}
        with stage_timer("chunk", timings):
            chunks = await self._chunker.chunk(parsed)
            lexical = await analyze(chunks, attempt)
        with stage_timer("index", timings):
            await self._indexer.write(
                attempt,
                chunks,
                lexical,
                quality=parsed.quality,
                checkpoint=lambda: self._catalog.stage(attempt, "embed"),
            )
        text = await asyncio.to_thread(parsed.text.encode)
        text_blob = await self._blobs.put(attempt.scope.as_service(), text)
        await self._catalog.stage(attempt, "publish")
        publication = _publication(attempt, parsed, chunks)
        return replace(
            publication,
            text_blob=text_blob,
            total_terms=lexical.total_terms,
            document_counts=lexical.document_counts,
        )

    async def _parse(self, attempt: Attempt) -> ParsedDocument:
        if attempt.blob.size == 0:
            raise ParseError("the file is empty", code=EMPTY_FILE)
        await self._catalog.stage(attempt, "parse")
        kept = await self._cache.recall(attempt)
        if kept is not None:
            return kept
        content = await self._blobs.get(attempt.scope.as_service(), attempt.blob)
        if attempt.promotion:
            return await self._parse_fully(attempt, content)
        try:
            parsed = await self._parser.parse(content, source=attempt.source, media_type=attempt.media_type)
        except ParseError as error:
            await self._cache.keep_failure(attempt, error)
            raise
        await self._cache.keep(attempt, parsed)
        return parsed

    async def _parse_fully(self, attempt: Attempt, content: bytes) -> ParsedDocument:
        """A promotion gives more than is served, or nothing."""
        parsed = await self._parser.parse_fully(content, source=attempt.source, media_type=attempt.media_type)
        if not parsed.text.strip():
            raise ParseError("read in full, the document holds no text", code=NO_TEXT)
        return parsed

    async def _fail(self, attempt: Attempt, error: AnchorageError) -> None:
        code = error.reason if isinstance(error, IngestError) else error.code
        history = [asdict(each) for each in getattr(error, "attempts", ())]
        await self._catalog.fail(attempt, code=code, message=error.message, history=history)

    async def _withdraw(self, attempt: Attempt) -> None:
        """Delete what a superseded attempt wrote; where that fails the sweep does it, the catalog knows of it."""
        try:
            await self._indexer.remove(attempt)
        except (UpstreamError, CollectionNotFoundError):
            _logger.warning("records of a superseded attempt are left to the sweep", extra={"action": "withdraw"})


def _readable(parsed: ParsedDocument, attempt: Attempt) -> ParsedDocument:
    """The document, with its title or source for a text if it has none."""
    if parsed.text.strip():
        return parsed
    label = parsed.title or attempt.source
    quality = parsed.quality if parsed.quality.degraded else Quality.NO_TEXT
    return replace(parsed, text=label, blocks=(Block(start=0, end=len(label)),), quality=quality)


def _publication(attempt: Attempt, parsed: ParsedDocument, chunks: Sequence[Chunk]) -> Publication:
    return Publication(
        attempt=attempt,
        chunks=len(chunks),
        characters=0 if parsed.quality is Quality.NO_TEXT else len(parsed.text),
        quality=parsed.quality,
        title=parsed.title,
        text_blob=None,
        encoding=parsed.encoding,
        parse_attempts=parsed.attempts,
        total_terms=0,
        document_counts={},
        fault=parsed.fault,
        structure=parsed.structure,
    )
