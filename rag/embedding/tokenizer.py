"""Tokens and their places in a text, without loading a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray

from rag.core import ports
from rag.core.errors import ConfigurationError
from rag.embedding.hashing import WordTokenizer, hash_dimension


class FastTokenizer:
    """A model's own tokenizer; offsets are code points. Threads may share it: it is never reconfigured."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer

    def spans(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """As the port says, on all cores.

        Of tokens that stand for the same characters, such as the mark of a word's beginning before the word, or
        the bytes of a rare character, all but the last are empty.
        """
        return [_apart(each.offsets) for each in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text with the special tokens that the model adds."""
        return [len(encoding.ids) for encoding in self._tokenizer.encode_batch(list(texts))]


def _apart(offsets: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Offsets without overlaps: each ends where the next begins, at the latest."""
    spans = np.fromiter(chain.from_iterable(offsets), dtype=np.int64, count=2 * len(offsets)).reshape(-1, 2)
    starts = np.minimum.accumulate(spans[::-1, 0])[::-1]
    ends = spans[:, 1]
    ends[:-1] = np.minimum(ends[:-1], starts[1:])
    return np.stack((starts, np.maximum(starts, ends)), axis=1)


def load_tokenizer(folder: Path | str) -> ports.Tokenizer:
    """The tokenizer of a model folder, of a hub name in the local cache, or of a ``hash-…`` model.

    Blocks for about a second. Raises ``ConfigurationError`` where there is no ``tokenizer.json``.
    """
    if hash_dimension(str(folder)) is not None:
        return WordTokenizer()
    try:
        return FastTokenizer(_read(folder))
    except Exception as error:  # the library raises bare exceptions for missing and broken files alike
        first = str(error).partition("\n")[0]
        raise ConfigurationError(f"{folder} has no tokenizer that can be read: {first}") from error


def _read(folder: Path | str) -> tokenizers.Tokenizer:
    path = Path(folder)
    if not path.is_dir():
        return tokenizers.Tokenizer.from_pretrained(str(folder))
    return tokenizers.Tokenizer.from_file(str(_transformer_folder(path) / "tokenizer.json"))


def _transformer_folder(folder: Path) -> Path:
    modules = folder / "modules.json"
    if (folder / "tokenizer.json").is_file() or not modules.is_file():
        return folder
    first = json.loads(modules.read_text(encoding="utf-8"))[0]
    return folder / str(first.get("path", ""))
