"""Which models a configuration needs, and whether their folders are there."""

from __future__ import annotations

from rag.models import MODELS, Precision, list_models
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


def manages_vllm(settings: Settings) -> bool:
    """Whether vLLM is started here: no other address is configured and its environment exists."""
    generation = settings.generation
    return generation.managed and generation.url is None and generation.vllm_python.is_file()


def wanted_models(settings: Settings, *, accelerator: Accelerator) -> dict[str, Precision | None]:
    """Return every known model that the configuration needs on this machine."""
    wanted = retrieval_models(settings, accelerator=accelerator)
    if manages_vllm(settings) and settings.generation.model in MODELS:
        wanted[settings.generation.model] = None
    return wanted


def missing_models(settings: Settings, names: list[str]) -> list[str]:
    """Return those of the known models ``names`` that have no prepared folder; reads folder names only."""
    prepared = {status.name for status in list_models(models_dir=settings.models_folder) if status.prepared}
    return [name for name in names if name not in prepared]
