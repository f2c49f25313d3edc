"""Which models a configuration needs, and whether their folders are there."""

from __future__ import annotations

from pathlib import Path

from rag.embedding import hash_dimension
from rag.embedding.model_folder import require_dimension
from rag.generation.interpreter import find_interpreter
from rag.models import MODELS, ModelKind, Precision, find_folder, list_models
from rag.settings import Settings
from rag.supervision.vllm import Accelerator

_PRECISIONS = {
    "fp32": Precision.FLOAT32,
    "bf16": Precision.BFLOAT16,
    "fp16": Precision.FLOAT16,
    "int8": Precision.INT8,
}
_DEFAULT_RERANKER = {"cpu": "cross-encoder-multilingual-l6", "gpu": "cross-encoder-multilingual-l12"}


def retrieval_models(settings: Settings, *, accelerator: Accelerator) -> dict[str, Precision | None]:
    """Return the known models of embedding and reranking with their configured precision (``None``: chosen)."""
    wanted = {settings.embedding.model: _PRECISIONS.get(settings.embedding.precision)}
    if settings.rerank.enabled:
        used: Accelerator = "cpu" if settings.embedding.device == "cpu" else accelerator
        name = _DEFAULT_RERANKER[used] if settings.rerank.model == "auto" else settings.rerank.model
        wanted[name] = _PRECISIONS.get(settings.rerank.precision)
    return {name: precision for name, precision in wanted.items() if name in MODELS}


def vllm_interpreter(settings: Settings) -> Path | None:
    """Return what vLLM is started with here; ``None`` where it has another address or no environment."""
    generation = settings.generation
    managed = generation.managed and generation.url is None
    return find_interpreter(generation.vllm_python) if managed else None


def require_models(settings: Settings) -> dict[str, Path]:
    """Return the folders of embedder and reranker where they need no preparation.

    Raises ``ConfigurationError`` for a model that is neither known here nor to be found on this machine.
    """
    embedder, reranker = settings.embedding.model, settings.rerank.model
    found: dict[str, Path] = {}
    if hash_dimension(embedder) is None:
        folder = find_folder(embedder, kind=ModelKind.EMBEDDER)
        if folder is not None:
            require_dimension(folder)
            found[embedder] = folder
    if settings.rerank.enabled and reranker != "auto":
        folder = find_folder(reranker, kind=ModelKind.RERANKER)
        if folder is not None:
            found[reranker] = folder
    return found


def wanted_models(settings: Settings, *, accelerator: Accelerator) -> dict[str, Precision | None]:
    """Return every known model that the configuration needs on this machine."""
    wanted = retrieval_models(settings, accelerator=accelerator)
    if vllm_interpreter(settings) and settings.generation.model in MODELS:
        wanted[settings.generation.model] = None
    return wanted


def missing_models(settings: Settings, names: list[str]) -> list[str]:
    """Return those of the known models ``names`` that have no prepared folder; reads folder names only."""
    prepared = {status.name for status in list_models(models_dir=settings.models_folder) if status.prepared}
    return [name for name in names if name not in prepared]
