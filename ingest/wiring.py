"""From settings to a running ingest worker: the only place where its parts meet."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

from ingest.chunking import FixedChunker, HeadedChunker, RecursiveChunker, SemanticChunker
from ingest.chunking.headers import HEADER_TOKENS
from ingest.embedding import embed_documents
from ingest.parse_cache import ParseCache, ResultTimes
from ingest.parsing import TierLimits, open_parser
from ingest.pipeline import IngestPipeline
from ingest.publisher import open_publisher
from ingest.sweeper import Sweeper
from ingest.watch import open_watch
from ingest.worker import run_worker as run_jobs
from rag.blobs import FileBlobs
from rag.catalog import Catalog
from rag.catalog.alignment import align_metadata
from rag.core.errors import CollectionNotFoundError, ConfigurationError
from rag.core.ports import Chunker, Embedder, Tokenizer, VectorStore
from rag.embedding import RemoteEmbedder, hash_dimension, load_tokenizer, open_remote_embedder
from rag.embedding.model_folder import require_dimension
from rag.models import ModelKind, Precision, resolve
from rag.settings import IngestSettings, Settings
from rag.telemetry import serve_metrics
from rag.wiring import Storage, open_storage, socket_of_models

_logger = logging.getLogger(__name__)

WAITING_FOR_PUBLISH = 62
"""How many documents may wait for their publish while the others are worked on; one commit takes 64."""

GRACE_SECONDS = 30.0
"""How long running documents may still take once the worker is asked to end."""

_PRECISIONS = {
    "fp32": Precision.FLOAT32,
    "bf16": Precision.BFLOAT16,
    "fp16": Precision.FLOAT16,
    "int8": Precision.INT8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """The open parts of a worker; whoever opened them closes them."""

    catalog: Catalog
    pipeline: IngestPipeline
    sweeper: Sweeper
    store: VectorStore
    blobs: FileBlobs | None

    async def sweep(self) -> None:
        """Remove what is served no longer from the store and from the blob folder."""
        await self.sweeper.sweep()
        await self.catalog.sweep_results()
        if self.blobs is not None:
            await self.catalog.sweep_blobs(self.blobs)

    async def align(self, tenant: str, document: UUID) -> None:
        """Bring the store's metadata of a document to what the catalog says."""
        with suppress(CollectionNotFoundError):
            await align_metadata(self.catalog, self.store, tenant=tenant, document=document)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """What the worker needs to know of the embedding model without loading it; ``window`` is in tokens."""

    tokenizer: Tokenizer
    dimension: int
    window: int | None


@asynccontextmanager
async def open_ingest(settings: Settings) -> AsyncIterator[Ingest]:
    """Everything a worker needs. It embeds through the service process, which need not run yet.

    Raises ``ConfigurationError``, and ``CatalogError`` or ``StoreError`` where these cannot be reached.
    """
    model = await asyncio.to_thread(_model, settings)
    ingest = settings.ingest
    async with (
        open_storage(settings) as storage,
        _open_embedder(settings, model.dimension) as embedder,
        open_publisher(storage.catalog, interval=ingest.publish_interval) as publisher,
        open_watch(storage.catalog) as watch,
        open_parser(
            limits=_tier_limits(ingest),
            memory_bytes=ingest.parse_memory_bytes,
            output_bytes=ingest.parse_output_bytes,
            documents=ingest.concurrency + ingest.promotions,
            ocr_languages=ingest.ocr_languages,
        ) as parser,
    ):
        pipeline = IngestPipeline(
            catalog=storage.catalog,
            blobs=storage.blobs,
            store=storage.store,
            embedder=embedder,
            parser=parser,
            chunker=_chunker(settings, model, embedder),
            publisher=publisher,
            cache=_parse_cache(settings, storage.catalog),
            watch=watch,
            concurrency=ingest.concurrency,
            held_bytes=ingest.held_bytes,
        )
        yield Ingest(
            catalog=storage.catalog,
            pipeline=pipeline,
            sweeper=Sweeper(storage.catalog, storage.store),
            store=storage.store,
            blobs=_file_blobs(storage),
        )


async def run_worker(settings: Settings) -> None:
    """Run a worker until SIGTERM or SIGINT; running documents are finished or given back.

    Raises as :func:`open_ingest`, and ``ConfigurationError`` when the port of its metrics is taken.
    """
    with _stop_by_signal() as stop, _metrics(settings):
        async with open_ingest(settings) as ingest:
            _logger.info("the worker runs", extra={"action": "worker_started"})
            await run_jobs(
                ingest.catalog.queue,
                ingest.pipeline,
                ingest.sweep,
                ingest.align,
                concurrency=settings.ingest.concurrency + WAITING_FOR_PUBLISH,
                promotions=settings.ingest.promotions,
                stop=stop,
                grace=GRACE_SECONDS,
                stalled_after=settings.ingest.stalled_after,
            )


@contextmanager
def _metrics(settings: Settings) -> Iterator[None]:
    port = settings.ingest.metrics_port
    with ExitStack() as served:
        try:
            served.enter_context(serve_metrics(settings.http.host, port))
        except OSError as error:
            raise ConfigurationError(f"ANCHORAGE_INGEST__METRICS_PORT={port}: {error.strerror or error}") from error
        yield


def _open_embedder(settings: Settings, dimension: int) -> AbstractAsyncContextManager[RemoteEmbedder]:
    return open_remote_embedder(
        socket=socket_of_models(settings),
        model=settings.embedding.model,
        dimension=dimension,
        timeout=settings.embedding.timeout,
    )


def _parse_cache(settings: Settings, catalog: Catalog) -> ParseCache:
    ingest = settings.ingest
    times = ResultTimes(summary=ingest.summary_ttl, fragment=ingest.fragment_ttl, empty=ingest.empty_ttl)
    return ParseCache(catalog, times)


def _chunker(settings: Settings, model: _Model, embedder: Embedder) -> Chunker:
    header_tokens = HEADER_TOKENS if settings.ingest.chunk_header else 0
    try:
        chunker = _plain_chunker(settings, model, embedder, header_tokens=header_tokens)
    except ValueError as error:
        raise ConfigurationError(
            "ANCHORAGE_INGEST__CHUNK_MIN_TOKENS and …CHUNK_OVERLAP_TOKENS leave no room below …CHUNK_TOKENS"
        ) from error
    return HeadedChunker(chunker, model.tokenizer, header_tokens=header_tokens) if header_tokens else chunker


def _plain_chunker(settings: Settings, model: _Model, embedder: Embedder, *, header_tokens: int) -> Chunker:
    """The chunker of the settings; with its header a chunk still fits the window of the model."""
    ingest = settings.ingest
    room = ingest.chunk_tokens if model.window is None else model.window - header_tokens
    most, least, overlap = min(ingest.chunk_tokens, room), ingest.chunk_min_tokens, ingest.chunk_overlap_tokens
    match ingest.chunker:
        case "semantic":
            embed = partial(embed_documents, embedder, dimension=model.dimension)
            return SemanticChunker(model.tokenizer, embed, max_tokens=most, min_tokens=least)
        case "fixed":
            return FixedChunker(model.tokenizer, max_tokens=most, min_tokens=least, overlap_tokens=overlap)
        case "recursive":
            return RecursiveChunker(model.tokenizer, max_tokens=most, min_tokens=least, overlap_tokens=overlap)


def _file_blobs(storage: Storage) -> FileBlobs | None:
    return storage.blobs if isinstance(storage.blobs, FileBlobs) else None


def _tier_limits(ingest: IngestSettings) -> TierLimits:
    return TierLimits(
        full=ingest.full_parse_seconds,
        summary_start=ingest.fast_parse_start_seconds,
        summary=ingest.summary_seconds,
        fragment=ingest.fragment_seconds,
        promotion=ingest.promotion_seconds,
        ocr=ingest.ocr_seconds,
    )


def _model(settings: Settings) -> _Model:
    """Blocks: a model that is known and not prepared yet is prepared."""
    name = settings.embedding.model
    hashed = hash_dimension(name)
    if hashed is not None:
        return _Model(tokenizer=load_tokenizer(name), dimension=hashed, window=None)
    precision = _PRECISIONS.get(settings.embedding.precision)
    place = Path(
        resolve(
            name,
            models_dir=settings.models_folder,
            precision=precision,
            kind=ModelKind.EMBEDDER,
            report=_logger.info,
        )
    )
    return _Model(tokenizer=load_tokenizer(place), dimension=require_dimension(place), window=_window(place))


def _window(folder: Path) -> int | None:
    """How many tokens the model reads; what is longer it would cut off."""
    try:
        config = json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    window = config.get("max_seq_length") if isinstance(config, dict) else None
    return window if isinstance(window, int) else None


@contextmanager
def _stop_by_signal() -> Iterator[asyncio.Event]:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    try:
        yield stop
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
