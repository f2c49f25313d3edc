"""What a sentence-transformers folder says of its vectors before any weight is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rag.core.errors import ConfigurationError


def folder_dimension(folder: Path) -> int | None:
    """The length of the vectors that the model in ``folder`` gives; ``None`` where its files do not say."""
    truncated = _read(folder / "config_sentence_transformers.json").get("truncate_dim")
    if isinstance(truncated, int):
        return truncated
    for module in reversed(_modules(folder)):
        config = _read(folder / module / "config.json")
        if isinstance(config.get("out_features"), int):
            return int(config["out_features"])
        width = config.get("word_embedding_dimension", config.get("embedding_dimension"))
        if isinstance(width, int):
            return width * max(1, sum(value is True for key, value in config.items() if key.startswith("pooling_mode")))
    width = _read(folder / "config.json").get("hidden_size")
    return width if isinstance(width, int) else None


def require_dimension(folder: Path) -> int:
    """The same. Raises ``ConfigurationError`` where the files do not say."""
    dimension = folder_dimension(folder)
    if dimension is None:
        raise ConfigurationError(f"the embedding model in {folder} does not say how long its vectors are")
    return dimension


def _modules(folder: Path) -> list[str]:
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [str(module.get("path", "")) for module in modules if module.get("path")]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
