"""The small files that make a transformers folder a sentence-transformers one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rag.models.folder import write_json

# These class paths are read by every release of the library since 2.0; the newer ones only by the newest.
_MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))


def write_modules(folder: Path, *, dimension: int, max_length: int, prompts: Mapping[str, str]) -> None:
    """Add mean pooling, unit length, the window of ``max_length`` tokens and the named ``prompts``."""
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(_MODULES)
    ]
    write_json(folder / "modules.json", modules)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": False})
    settings = {"model_type": "SentenceTransformer", "prompts": dict(prompts), "similarity_fn_name": "cosine"}
    write_json(folder / "config_sentence_transformers.json", settings)
    _write_module(folder / "1_Pooling", {"word_embedding_dimension": dimension, "pooling_mode_mean_tokens": True})
    _write_module(folder / "2_Normalize", {})


def _write_module(folder: Path, config: Mapping[str, object]) -> None:
    folder.mkdir()
    write_json(folder / "config.json", config)
