"""Generated texts whose words are as unevenly frequent as those of a language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from rag.core.types import Terms
from rag.lexical import TermCounts, count_terms, document_weights, query_weights


def zipf_texts(count: int, *, words: int, vocabulary: int, seed: int) -> list[str]:
    """Texts of ``words`` words on average, the n-th most frequent of which is as frequent as 1/n (Zipf's law)."""
    random = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, vocabulary + 1)
    lengths = random.integers(words // 2, words + words // 2, size=count, endpoint=True)
    drawn = np.searchsorted(np.cumsum(shares) / shares.sum(), random.random(int(lengths.sum())))
    texts = np.split(drawn, np.cumsum(lengths)[:-1])
    return [" ".join(f"w{word}" for word in text.tolist()) for text in texts]


class Lexicon:
    """What the lexical side needs to know of a collection of texts: their counts, and in how many each term is."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.counts: Sequence[TermCounts] = [count_terms(text) for text in texts]
        self.holding: Mapping[int, int] = Counter(term for each in self.counts for term in each.counts)
        self._average = sum(each.length for each in self.counts) / max(1, len(self.counts))

    def documents(self) -> list[Terms]:
        """The weights that each text is stored with."""
        return [document_weights(each, average_length=self._average) for each in self.counts]

    def query(self, text: str) -> Terms:
        """The weights that a query is asked with."""
        return query_weights(count_terms(text), chunks=len(self.counts), document_counts=self.holding)
