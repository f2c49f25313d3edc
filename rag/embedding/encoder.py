"""A sentence-transformers model as the embedder uses it; everything here blocks and runs in threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import tokenizers

from rag.core.errors import ConfigurationError
from rag.core.types import Vector, Vectors
from rag.embedding.tokenizer import FastTokenizer
from rag.models.loading import load_embedder
from rag.models.spec import Precision
from rag.telemetry import model_batch

Kind: TypeAlias = Literal["query", "document"]

_PROMPTS: dict[Kind, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One text for the model; ``tokens`` counts prompt and special tokens, and is at most the model's window."""

    text: str
    kind: Kind
    tokens: int


class Encoder:
    """The loaded model and a tokenizer of its own to count with.

    The library reconfigures the model's tokenizer on every call, which fails while another thread reads from
    it; so the counting thread has a copy.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._tokenizer = _own_tokenizer(model)
        self.window = int(model.max_seq_length)
        self.dimension = int(model.get_embedding_dimension())

    def count(self, texts: Sequence[str], kind: Kind) -> list[int]:
        """Tokens of each text as the model would read it whole."""
        prompt = self._prompt(kind)
        return self._tokenizer.count([prompt + text for text in texts])

    def encode(self, batch: Sequence[Text]) -> list[Vector]:
        """One vector a text, in order; a text over the window is cut at its end."""
        vectors: list[Vector] = [np.empty(0, dtype=np.float32)] * len(batch)
        for kind in _PROMPTS:
            places = [place for place, text in enumerate(batch) if text.kind == kind]
            if places:
                rows = self._forward([batch[place].text for place in places], kind)
                for place, row in zip(places, rows, strict=True):
                    vectors[place] = row
        return vectors

    def _forward(self, texts: list[str], kind: Kind) -> Vectors:
        encode = self._model.encode_query if kind == "query" else self._model.encode_document
        with model_batch("embedding", len(texts)):
            vectors: Vectors = encode(texts, batch_size=len(texts), show_progress_bar=False)
        return vectors

    def _prompt(self, kind: Kind) -> str:
        prompts = self._model.prompts
        named = next((prompts[name] for name in _PROMPTS[kind] if name in prompts), None)
        return str(named if named is not None else prompts.get(self._model.default_prompt_name) or "")


def load_encoder(folder: Path | str, *, device: str, precision: Precision, threads: int | None) -> Encoder:
    """Load the model, which takes seconds. Raises ``ConfigurationError`` or ``MissingExtraError``."""
    return Encoder(load_embedder(folder, device=device, precision=precision, threads=threads))


def _own_tokenizer(model: Any) -> FastTokenizer:
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ConfigurationError("the embedding model has no fast tokenizer")
    return FastTokenizer(tokenizers.Tokenizer.from_str(backend.to_str()))
