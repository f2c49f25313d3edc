"""Generated rows: ids name their row, and batches hold every row once."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.rows import SCOPE, Numbers, Rows, load, row_id
from benchmarks.texts import Lexicon, zipf_texts
from rag.core.records import CollectionSpec
from stores.memory import open_store


def _rows(count: int) -> Rows:
    vectors = np.random.default_rng(0).standard_normal((count, 4)).astype(np.float32)
    return Rows(vectors=vectors, texts=[f"row {number}" for number in range(count)])


def test_an_id_tells_its_row() -> None:
    numbers = Numbers(5)

    assert numbers.of([row_id(4), row_id(0)]) == [4, 0]


def test_batches_hold_each_row_once_in_order() -> None:
    batches = list(_rows(5).batches(2))

    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert [text for batch in batches for text in batch.texts] == [f"row {number}" for number in range(5)]


async def test_a_load_leaves_all_rows_in_the_store() -> None:
    async with open_store({}) as store:
        await store.create_collection("c", CollectionSpec(dimension=4))

        await load(store, "c", _rows(5), label="c", size=2)

        assert await store.count("c", SCOPE) == 5


@pytest.mark.parametrize("words", [4, 50])
def test_generated_texts_have_words_of_uneven_frequency(words: int) -> None:
    texts = zipf_texts(400, words=words, vocabulary=1000, seed=2)
    held = sorted(Lexicon(texts).holding.values())

    assert all(words // 2 <= len(text.split()) <= words + words // 2 for text in texts)
    assert held[-1] > 20 * held[0]
