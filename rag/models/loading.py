"""Loads prepared folders into sentence-transformers models; CPU-heavy, so call it in a thread."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rag.core.errors import ConfigurationError, MissingExtraError
from rag.models.spec import ModelKind, Precision

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer

Model = TypeVar("Model")


def pick_device(wanted: str = "auto") -> str:
    """Return the torch device for ``wanted``; ``auto`` is ``cuda`` where there is a GPU, else ``cpu``."""
    if wanted != "auto":
        return wanted
    torch = _torch()
    return "cuda" if torch.cuda.is_available() else "cpu"


def cuda_capability(device: str) -> tuple[int, int] | None:
    """Return the compute capability of a CUDA device, None for any other device."""
    if not device.startswith("cuda"):
        return None
    major, minor = _torch().cuda.get_device_capability(device)
    return major, minor


def load_embedder(
    folder: str | Path, *, device: str, precision: Precision, threads: int | None = None
) -> SentenceTransformer:
    """Load an embedder; ``threads`` sets torch's threads for the whole process, None leaves them.

    Raises ConfigurationError when the model cannot be loaded, MissingExtraError without sentence-transformers.
    """
    library = _sentence_transformers(threads)
    options = _options(device=device, precision=precision)
    model: SentenceTransformer = _load(library.SentenceTransformer, folder, options, ModelKind.EMBEDDER)
    return _finish(model, precision)


def load_cross_encoder(
    folder: str | Path, *, device: str, precision: Precision, threads: int | None = None
) -> CrossEncoder:
    """Load a cross-encoder; raises and treats ``threads`` as ``load_embedder`` does."""
    library = _sentence_transformers(threads)
    options = _options(device=device, precision=precision)
    model: CrossEncoder = _load(library.CrossEncoder, folder, options, ModelKind.RERANKER)
    return _finish(model, precision)


def _options(*, device: str, precision: Precision) -> Mapping[str, Any]:
    dtype = getattr(_torch(), precision.stored)
    return {"device": device, "model_kwargs": {"dtype": dtype}}


def _load(factory: Callable[..., Model], folder: str | Path, options: Mapping[str, Any], kind: ModelKind) -> Model:
    try:
        return factory(str(folder), local_files_only=True, **options)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        first = str(error).strip().partition("\n")[0]
        raise ConfigurationError(f"the {kind} {folder} cannot be loaded: {first}") from error


def _finish(model: Model, precision: Precision) -> Model:
    module: Any = model
    module.eval()
    if precision is Precision.INT8:
        _quantise(module)
    return model


def _quantise(module: Any) -> None:
    torch = _torch()
    with warnings.catch_warnings():
        # torch announces that these tensor types go; the release that has them is pinned.
        warnings.simplefilter("ignore")
        torch.ao.quantization.quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8, inplace=True)


def _sentence_transformers(threads: int | None) -> Any:
    torch = _torch()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        import sentence_transformers
        import transformers
    except ImportError as error:
        raise MissingExtraError(
            f"local models need sentence-transformers ({error}): pip install 'anchorage[local]'"
        ) from error
    transformers.utils.logging.disable_progress_bar()
    return sentence_transformers


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("local models need torch: pip install 'anchorage[local]'") from error
    return torch
