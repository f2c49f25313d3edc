"""Counting the generator's tokens: with its tokenizer where there is one, else never too few."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

_INLINE_CHARACTERS = 4096


@dataclass(slots=True)
class TokenCounter:
    """Counts tokens with ``<folder>/tokenizer.json``, read when it is first needed and there.

    Without one, each UTF-8 byte counts as a token: no byte-level vocabulary needs more.
    """

    folder: Path | None
    _tokenizer: Tokenizer | None = None

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens; large work leaves the event loop."""
        if self._tokenizer is None and self.folder is not None:
            self._tokenizer = await asyncio.to_thread(_load, self.folder / "tokenizer.json")
        if self._tokenizer is None:
            return [len(text.encode("utf-8", "surrogatepass")) for text in texts]
        if sum(map(len, texts)) <= _INLINE_CHARACTERS:
            return _count(self._tokenizer, texts)
        return await asyncio.to_thread(_count, self._tokenizer, texts)


def _load(path: Path) -> Tokenizer | None:
    if not path.is_file():
        return None
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _count(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    return [len(encoding.ids) for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
