"""The models that run in the service process."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rag.batching import open_lane
from rag.core.ports import Reranker
from rag.embedding import hash_dimension, open_local_embedder
from rag.embedding.host import HostedEmbedder, HostedScorer
from rag.models import ModelKind, Precision, resolve
from rag.models.loading import cuda_capability, pick_device
from rag.models.precision import choose_precision, cpu_features
from rag.settings import Settings
from rerank import CrossEncoderReranker, open_local_scorer

NVIDIA_DRIVER = Path("/proc/driver/nvidia/gpus")

_PRECISIONS = {
    "fp32": Precision.FLOAT32,
    "bf16": Precision.BFLOAT16,
    "fp16": Precision.FLOAT16,
    "int8": Precision.INT8,
}
_RERANKER_OF_CPU = "cross-encoder-multilingual-l6"
_RERANKER_OF_GPU = "cross-encoder-multilingual-l12"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models of this process; they share one lane, so that interactive work of each goes first."""

    embedder: HostedEmbedder
    scorer: HostedScorer | None
    reranker: Reranker | None


@asynccontextmanager
async def open_models(settings: Settings) -> AsyncIterator[Models]:
    """Start loading embedder and reranker. Raises ``ConfigurationError`` for a model that cannot be had."""
    device, capability = await asyncio.to_thread(_device, settings)
    chosen = await asyncio.to_thread(_choose_embedder, settings, capability)
    ranking = await asyncio.to_thread(_choose_reranker, settings, capability)
    async with AsyncExitStack() as stack:
        lane = await stack.enter_async_context(open_lane())
        embedding = settings.embedding
        embedder = await stack.enter_async_context(
            open_local_embedder(
                chosen.folder,
                name=embedding.model,
                device=device,
                precision=chosen.precision,
                threads=embedding.threads or None,
                max_batch=embedding.max_batch,
                batch_tokens=embedding.batch_tokens,
                queue=embedding.queue,
                lane=lane,
            )
        )
        if ranking is None:
            yield Models(embedder=embedder, scorer=None, reranker=None)
            return
        scorer = await stack.enter_async_context(
            open_local_scorer(
                ranking.folder,
                name=ranking.name,
                languages=settings.rerank.languages,
                device=device,
                precision=ranking.precision,
                threads=embedding.threads or None,
                lane=lane,
            )
        )
        yield Models(
            embedder=embedder,
            scorer=scorer,
            reranker=CrossEncoderReranker(scorer, weight=settings.rerank.weight),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    name: str
    folder: str
    precision: Precision


def _device(settings: Settings) -> tuple[str, tuple[int, int] | None]:
    """The device and, for a GPU, its compute capability; torch is only imported where there may be one."""
    wanted = settings.embedding.device
    if wanted == "cpu" or (wanted == "auto" and not NVIDIA_DRIVER.is_dir() and not shutil.which("nvidia-smi")):
        return "cpu", None
    device = pick_device(wanted)
    return device, cuda_capability(device)


def _choose_embedder(settings: Settings, capability: tuple[int, int] | None) -> _Chosen:
    name = settings.embedding.model
    if hash_dimension(name) is not None:
        return _Chosen(name=name, folder=name, precision=Precision.FLOAT32)
    return _choose(settings, name, settings.embedding.precision, ModelKind.EMBEDDER, capability)


def _choose_reranker(settings: Settings, capability: tuple[int, int] | None) -> _Chosen | None:
    if not settings.rerank.enabled:
        return None
    default = _RERANKER_OF_GPU if capability else _RERANKER_OF_CPU
    name = default if settings.rerank.model == "auto" else settings.rerank.model
    return _choose(settings, name, settings.rerank.precision, ModelKind.RERANKER, capability)


def _choose(
    settings: Settings, name: str, precision: str, kind: ModelKind, capability: tuple[int, int] | None
) -> _Chosen:
    wanted = _PRECISIONS.get(precision)
    folder = resolve(name, models_dir=settings.models_folder, precision=wanted, kind=kind, report=_logger.info)
    best = choose_precision(kind, features=cpu_features(), cuda_capability=capability)
    return _Chosen(name=name, folder=folder, precision=wanted or best)
