"""The cross-encoder in this process, behind a batcher."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rag.batching import Batcher, BatchLimits, Lane, Lazy, open_batcher, open_lazy
from rag.core.errors import AnchorageError, RerankError
from rag.core.types import EVERY_LANGUAGE, Priority
from rag.models.spec import Precision
from rag.telemetry import model_call
from rerank.cross_encoder import Pair, PairEncoder, load_pair_encoder


class LocalScorer:
    """A cross-encoder, loaded in the background; made by :func:`open_local_scorer`."""

    def __init__(
        self, name: str, *, languages: frozenset[str], encoder: Lazy[PairEncoder], batcher: Batcher[Pair, float]
    ) -> None:
        self._name = name
        self._languages = languages
        self._encoder = encoder
        self._batcher = batcher

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._name

    @property
    def languages(self) -> frozenset[str]:
        """ISO 639-1 codes, or ``*`` for any."""
        return self._languages

    @property
    def ready(self) -> bool:
        """Whether the model is loaded."""
        return self._encoder.ready

    @property
    def error(self) -> BaseException | None:
        """Why the model could not be loaded; ``None`` while it loads and when it is ready."""
        return self._encoder.error

    async def wait_ready(self) -> None:
        """Return once the model is loaded. Raises ``RerankError`` when it cannot be."""
        await self._loaded()

    async def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Raw logits, shape ``(len(texts),)``, waiting for the model to load; texts are cut to the model's window.

        Raises ``RerankError``, with ``retry_after`` when too many pairs wait.
        """
        with model_call("rerank", Priority.INTERACTIVE, len(texts)):
            encoder = await self._loaded()
            try:
                pairs = await asyncio.to_thread(encoder.pairs, _clean(query), [_clean(text) for text in texts])
                scores = await self._batcher.submit(pairs, priority=Priority.INTERACTIVE)
            except AnchorageError as error:
                raise RerankError(error.message, retry_after=error.retry_after) from error
            except Exception as error:
                raise RerankError(f"the cross-encoder failed: {type(error).__name__}") from error
        return np.array(scores, dtype=np.float32)

    async def _loaded(self) -> PairEncoder:
        try:
            return await self._encoder.get()
        except AnchorageError as error:
            raise RerankError(f"the cross-encoder is not loaded: {error.message}") from error
        except Exception as error:
            raise RerankError(f"the cross-encoder is not loaded: {type(error).__name__}") from error


@asynccontextmanager
async def open_local_scorer(
    folder: Path | str,
    *,
    name: str,
    languages: Collection[str] = (EVERY_LANGUAGE,),
    device: str = "auto",
    precision: Precision,
    threads: int | None = None,
    max_batch: int = 32,
    batch_tokens: int = 2048,
    queue: int = 2048,
    lane: Lane | None = None,
) -> AsyncIterator[LocalScorer]:
    """The cross-encoder in ``folder`` (or of a hub name in the local cache).

    Returns at once and loads in a thread: ``ready``, ``error`` and ``wait_ready`` tell how far it is. ``threads``
    are torch's, for the whole process; ``None`` leaves them. Pass the ``lane`` that the embedder runs on.
    """
    limits = BatchLimits(items=max_batch, tokens=batch_tokens, queue=queue)
    load = partial(load_pair_encoder, folder, device=device, precision=precision, threads=threads)
    async with open_lazy(load, name=name) as encoder:

        def score(batch: Sequence[Pair]) -> list[float]:
            scores: list[float] = encoder.value.score(batch).tolist()
            return scores

        async with open_batcher(score, cost=lambda pair: pair.tokens, limits=limits, lane=lane) as batcher:
            yield LocalScorer(name, languages=frozenset(languages), encoder=encoder, batcher=batcher)


def _clean(text: str) -> str:
    """NUL as a space, and halves of surrogate pairs as question marks: tokenizers refuse or cut at them."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()
