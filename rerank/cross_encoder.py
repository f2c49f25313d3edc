"""A sentence-transformers cross-encoder as the scorer uses it; everything here blocks and runs in threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from rag.core.errors import ConfigurationError
from rag.models.loading import load_cross_encoder, pick_device
from rag.models.spec import Precision
from rag.telemetry import model_batch

QUERY_TOKENS = 96
PAIR_TOKENS = 384

_SPECIAL_TOKENS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A query, cut to ``QUERY_TOKENS``, with a passage; ``tokens`` is what the model will read of both."""

    query: str
    passage: str
    tokens: int


class PairEncoder:
    """The loaded model, and a tokenizer of its own to count with while the model's is in use."""

    def __init__(self, model: Any) -> None:
        import torch

        self._model = model
        self._raw_logits = torch.nn.Identity()
        self.window = min(PAIR_TOKENS, int(model.max_seq_length or PAIR_TOKENS))
        self._model.max_seq_length = self.window
        self._tokenizer = _own_tokenizer(model)

    def pairs(self, query: str, passages: Sequence[str]) -> list[Pair]:
        """Pairs of the query's first ``QUERY_TOKENS`` tokens with each passage."""
        query, query_tokens = self._cut(query)
        encodings = self._tokenizer.encode_batch(list(passages), add_special_tokens=False)
        return [
            Pair(
                query=query,
                passage=passage,
                tokens=min(self.window, query_tokens + len(encoding.ids) + _SPECIAL_TOKENS),
            )
            for passage, encoding in zip(passages, encodings, strict=True)
        ]

    def score(self, batch: Sequence[Pair]) -> NDArray[np.float32]:
        """One raw logit a pair, in order.

        A pair over the window loses the end of its passage: the tokenizer cuts the longer side.
        """
        with model_batch("rerank", len(batch)):
            logits = self._model.predict(
                [(pair.query, pair.passage) for pair in batch],
                batch_size=len(batch),
                activation_fn=self._raw_logits,
                convert_to_tensor=True,
                show_progress_bar=False,
            )
        scores: NDArray[np.float32] = logits.float().cpu().numpy().reshape(len(batch))
        return scores

    def _cut(self, query: str) -> tuple[str, int]:
        offsets = self._tokenizer.encode(query, add_special_tokens=False).offsets
        if len(offsets) <= QUERY_TOKENS:
            return query, len(offsets)
        return query[: offsets[QUERY_TOKENS - 1][1]], QUERY_TOKENS


def load_pair_encoder(folder: Path | str, *, device: str, precision: Precision, threads: int | None) -> PairEncoder:
    """Load the model, which takes seconds. Raises ``ConfigurationError`` or ``MissingExtraError``."""
    model = load_cross_encoder(folder, device=pick_device(device), precision=precision, threads=threads)
    return PairEncoder(model)


def _own_tokenizer(model: Any) -> tokenizers.Tokenizer:
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ConfigurationError("the cross-encoder has no fast tokenizer")
    tokenizer = tokenizers.Tokenizer.from_str(backend.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
