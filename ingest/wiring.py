"""From settings to a running ingest worker: the only place where its parts meet."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from ingest.chunking import RecursiveChunker
from ingest.parsing import open_parser
from ingest.pipeline import IngestPipeline
from ingest.publisher import open_publisher
from ingest.sweeper import Sweeper
from ingest.worker import run_worker as run_jobs
from rag.blobs import FileBlobs
from rag.catalog import Catalog
from rag.catalog.alignment import align_metadata
from rag.core.errors import CollectionNotFoundError, ConfigurationError
from rag.core.ports import Tokenizer, VectorStore
from rag.embedding import RemoteEmbedder, hash_dimension, load_tokenizer, open_remote_embedder
from rag.embedding.model_folder import require_dimension
from rag.models import ModelKind, Precision, resolve
from rag.settings import Settings
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
        open_parser(
            timeout=ingest.parse_timeout,
            memory_bytes=ingest.parse_memory_bytes,
            output_bytes=ingest.parse_output_bytes,
            children=ingest.concurrency,
        ) as parser,
    ):
        pipeline = IngestPipeline(
            catalog=storage.catalog,
            blobs=storage.blobs,
            store=storage.store,
            embedder=embedder,
            parser=parser,
            chunker=_chunker(settings, model),
            publisher=publisher,
            concurrency=ingest.concurrency,
        )
        yield Ingest(
            catalog=storage.catalog,
            pipeline=pipeline,
            sweeper=Sweeper(storage.catalog, storage.store),
            store=storage.store,
            blobs=_file_blobs(storage),
        )


async def run_worker(settings: Settings) -> None:
    """Run a worker until SIGTERM or SIGINT; running documents are finished or given back."""
    with _stop_by_signal() as stop:
        async with open_ingest(settings) as ingest:
            _logger.info("the worker runs", extra={"action": "worker_started"})
            await run_jobs(
                ingest.catalog.queue,
                ingest.pipeline,
                ingest.sweep,
                ingest.align,
                concurrency=settings.ingest.concurrency + WAITING_FOR_PUBLISH,
                stop=stop,
                grace=GRACE_SECONDS,
                stalled_after=settings.ingest.stalled_after,
            )


def _open_embedder(settings: Settings, dimension: int) -> AbstractAsyncContextManager[RemoteEmbedder]:
    return open_remote_embedder(
        socket=socket_of_models(settings),
        model=settings.embedding.model,
        dimension=dimension,
        timeout=settings.embedding.timeout,
    )


def _chunker(settings: Settings, model: _Model) -> RecursiveChunker:
    ingest = settings.ingest
    try:
        return RecursiveChunker(
            model.tokenizer,
            max_tokens=min(ingest.chunk_tokens, model.window or ingest.chunk_tokens),
            min_tokens=ingest.chunk_min_tokens,
            overlap_tokens=ingest.chunk_overlap_tokens,
        )
    except ValueError as error:
        raise ConfigurationError(
            "ANCHORAGE_INGEST__CHUNK_MIN_TOKENS and …CHUNK_OVERLAP_TOKENS leave no room below …CHUNK_TOKENS"
        ) from error


def _file_blobs(storage: Storage) -> FileBlobs | None:
    return storage.blobs if isinstance(storage.blobs, FileBlobs) else None


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
