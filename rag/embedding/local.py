"""The embedding model in this process, behind a batcher."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np

from rag.batching import Batcher, BatchLimits, Lane, Lazy, open_batcher, open_lazy
from rag.core.errors import AnchorageError, EmbeddingError, InvalidRequestError
from rag.core.types import Priority, Vector, Vectors
from rag.embedding.encoder import Encoder, Kind, Text, load_encoder
from rag.embedding.hashing import HashEmbedder, hash_dimension
from rag.embedding.model_folder import folder_dimension
from rag.embedding.vectors import checked_texts, checked_vectors
from rag.models.loading import pick_device
from rag.models.spec import Precision
from rag.telemetry import model_call

_SUBMITTED_AT_ONCE = 256


class LocalEmbedder:
    """A sentence-transformers model, loaded in the background; made by :func:`open_local_embedder`."""

    def __init__(
        self, name: str, *, dimension: int | None, encoder: Lazy[Encoder], batcher: Batcher[Text, Vector]
    ) -> None:
        self._name = name
        self._dimension = dimension
        self._encoder = encoder
        self._batcher = batcher

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._name

    @property
    def dimension(self) -> int:
        """Length of a vector. Raises ``EmbeddingError`` while a model loads whose files do not say it."""
        if self._dimension is None:
            raise EmbeddingError("the embedding model is still loading")
        return self._dimension

    @property
    def ready(self) -> bool:
        """Whether the model is loaded."""
        return self._encoder.ready

    @property
    def error(self) -> BaseException | None:
        """Why the model could not be loaded; ``None`` while it loads and when it is ready."""
        return self._encoder.error

    async def wait_ready(self) -> None:
        """Return once the model is loaded. Raises ``EmbeddingError`` when it cannot be."""
        await self._loaded()

    async def embed(self, texts: Sequence[str], *, kind: Kind, priority: Priority = Priority.INTERACTIVE) -> Vectors:
        """One vector a text as the port says, waiting for the model to load.

        A query longer than the model's window is cut at its end; a document never is: ``InvalidRequestError``.
        """
        with model_call("embedding", priority, len(texts)):
            encoder = await self._loaded()
            items = await self._measured(checked_texts(texts), kind, encoder)
            rows = await self._rows(items, priority)
            if not rows:
                return np.empty((0, encoder.dimension), dtype=np.float32)
            return checked_vectors(np.stack(rows), rows=len(items), dimension=encoder.dimension)

    async def _loaded(self) -> Encoder:
        try:
            encoder = await self._encoder.get()
        except AnchorageError as error:
            raise EmbeddingError(f"the embedding model is not loaded: {error.message}") from error
        except Exception as error:
            raise EmbeddingError(f"the embedding model is not loaded: {type(error).__name__}") from error
        if self._dimension not in (None, encoder.dimension):
            raise EmbeddingError(f"the model gives {encoder.dimension} numbers, its files say {self._dimension}")
        self._dimension = encoder.dimension
        return encoder

    async def _measured(self, texts: list[str], kind: Kind, encoder: Encoder) -> list[Text]:
        counts = await asyncio.to_thread(encoder.count, texts, kind)
        if kind == "document":
            for position, count in enumerate(counts):
                if count > encoder.window:
                    raise InvalidRequestError(
                        f"text {position} has {count} tokens and the model reads at most {encoder.window}"
                    )
        return [
            Text(text=text, kind=kind, tokens=min(count, encoder.window))
            for text, count in zip(texts, counts, strict=True)
        ]

    async def _rows(self, items: list[Text], priority: Priority) -> list[Vector]:
        """Submit in slices, so that a long document fits the queue and leaves room in it for others."""
        size = min(_SUBMITTED_AT_ONCE, self._batcher.limits.queue)
        rows: list[Vector] = []
        for start in range(0, len(items), size):
            try:
                rows += await self._batcher.submit(items[start : start + size], priority=priority)
            except AnchorageError:
                raise
            except Exception as error:
                raise EmbeddingError(f"the embedding model failed: {type(error).__name__}") from error
        return rows


@asynccontextmanager
async def open_local_embedder(
    folder: Path | str,
    *,
    name: str,
    device: str = "auto",
    precision: Precision,
    threads: int | None = None,
    max_batch: int = 32,
    batch_tokens: int = 4096,
    queue: int = 2048,
    lane: Lane | None = None,
) -> AsyncIterator[LocalEmbedder | HashEmbedder]:
    """The model in ``folder`` (or of a hub name in the local cache), or the hash embedder for a ``hash-…`` name.

    Returns at once and loads in a thread: ``ready``, ``error`` and ``wait_ready`` tell how far it is. ``threads``
    are torch's, for the whole process; ``None`` leaves them. Pass the ``lane`` that the other models of the
    process run on. ``queue`` bounds the waiting texts of each priority.
    """
    hashed = hash_dimension(name)
    if hashed is not None:
        yield HashEmbedder(hashed)
        return
    limits = BatchLimits(items=max_batch, tokens=batch_tokens, queue=queue)
    load = partial(_load, folder, device=device, precision=precision, threads=threads)
    async with open_lazy(load, name=name) as encoder:

        def encode(batch: Sequence[Text]) -> list[Vector]:
            return encoder.value.encode(batch)

        async with open_batcher(encode, cost=lambda text: text.tokens, limits=limits, lane=lane) as batcher:
            yield LocalEmbedder(name, dimension=folder_dimension(Path(folder)), encoder=encoder, batcher=batcher)


def _load(folder: Path | str, *, device: str, precision: Precision, threads: int | None) -> Encoder:
    return load_encoder(folder, device=pick_device(device), precision=precision, threads=threads)
