"""The hash embedder finds equal words, the same way in every process."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidRequestError
from rag.embedding.hashing import HashEmbedder, WordTokenizer, hash_dimension


@pytest.mark.parametrize(
    ("name", "dimension"), [("hash-384", 384), ("hash-8", 8), ("hash-0", None), ("hash-x", None), ("e5", None)]
)
def test_the_name_says_the_dimension(name: str, dimension: int | None) -> None:
    assert hash_dimension(name) == dimension


async def test_vectors_are_normalised_contiguous_float32() -> None:
    vectors = await HashEmbedder(64).embed(["a harbour", "", "船"], kind="document")

    assert vectors.shape == (3, 64)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("where do ships anchor", "Ships lie at anchor.", "Bread is baked in ovens."),
        ("船在哪里抛锚", "船只在港口抛锚", "面包在烤箱里烤"),
    ],
)
async def test_texts_that_share_words_are_nearer(query: str, near: str, far: str) -> None:
    embedder = HashEmbedder(384)

    asked = await embedder.embed([query], kind="query")
    found = await embedder.embed([near, far], kind="document")

    similar, different = (asked @ found.T)[0]
    assert similar > different


async def test_long_inputs_give_the_same_vectors_as_short_ones() -> None:
    embedder = HashEmbedder(32)
    texts = [f"word{number} " * 50 for number in range(40)]

    together = await embedder.embed(texts, kind="document")
    alone = await embedder.embed([texts[7]], kind="document")

    assert np.array_equal(together[7], alone[0])


async def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="text 1"):
        await HashEmbedder(8).embed(["fine", "\ud800"], kind="query")


@given(st.text())
def test_word_tokens_cover_everything_but_spaces_in_order(text: str) -> None:
    [spans] = WordTokenizer().spans([text])

    assert "".join(text[start:end] for start, end in spans) == "".join(text.split())
    assert all(left[1] <= right[0] for left, right in pairwise(spans.tolist()))
