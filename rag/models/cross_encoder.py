"""The multilingual cross-encoder: encoder weights of ours joined with the embedder's word embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

from rag.models.e5 import word_embeddings
from rag.models.e5_file import read_e5_file
from rag.models.encoder_weights import read_encoder
from rag.models.folder import read_json, write_json
from rag.models.spec import Precision, Report
from rag.models.tensors import storage_dtype
from rag.models.unigram import write_tokenizer

MAX_LENGTH = 384
MAX_QUERY_LENGTH = 96

_WORD_EMBEDDINGS = "bert.embeddings.word_embeddings.weight"


def write_cross_encoder(folder: Path, *, sources: Mapping[str, Path], precision: Precision, report: Report) -> None:
    """Write a sentence-transformers CrossEncoder of one output to ``folder``.

    Pairs read ``<s> query </s> passage </s>`` with all token types 0, at most 384 tokens; scores are logits
    with a sigmoid as default activation. ``sources`` are ``packed`` (the embedder's file), ``encoder`` and
    ``config``. Raises ConfigurationError when one of them is damaged.
    """
    report("reading the encoder")
    tensors = read_encoder(sources["encoder"])
    report("reading the shared word embeddings")
    packed = read_e5_file(sources["packed"])
    tensors[_WORD_EMBEDDINGS] = word_embeddings(packed)
    dtype = storage_dtype(precision)
    stored = {name: tensor.to(dtype).contiguous() for name, tensor in tensors.items()}
    report("writing the joined model")
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(folder, packed.vocabulary, max_length=MAX_LENGTH)
    write_json(folder / "config.json", _config(sources["config"], dtype))


def _config(path: Path, dtype: torch.dtype) -> dict[str, object]:
    name = str(dtype).removeprefix("torch.")
    activation = {"activation_fn": "torch.nn.modules.activation.Sigmoid"}
    return {**read_json(path), "dtype": name, "torch_dtype": name, "sentence_transformers": activation}
