"""No vector leaves an embedder unchecked."""

from __future__ import annotations

import numpy as np
import pytest

from rag.core.errors import EmbeddingError
from rag.embedding.vectors import checked_texts, checked_vectors, from_wire


def test_vectors_become_unit_length_contiguous_float32() -> None:
    raw = np.asfortranarray(np.array([[3.0, 4.0], [0.0, 2.0]], dtype=np.float64))

    vectors = checked_vectors(raw, rows=2, dimension=2)

    assert vectors.tolist() == pytest.approx(np.array([[0.6, 0.8], [0.0, 1.0]]))
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param([[1.0, float("nan")]], id="nan"),
        pytest.param([[1.0, float("inf")]], id="infinity"),
        pytest.param([[0.0, 0.0]], id="zero"),
        pytest.param([[1.0]], id="dimension"),
        pytest.param([[1.0, 0.0], [0.0, 1.0]], id="rows"),
    ],
)
def test_vectors_that_cannot_be_right_are_refused(raw: list[list[float]]) -> None:
    with pytest.raises(EmbeddingError):
        checked_vectors(np.array(raw), rows=1, dimension=2)


def test_a_reply_of_another_length_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="12 bytes"):
        from_wire(b"\0" * 12, rows=1, dimension=2)


def test_the_wire_is_little_endian() -> None:
    body = np.array([[1.0, 0.0]], dtype=">f4").byteswap().tobytes()

    assert from_wire(body, rows=1, dimension=2).tolist() == [[1.0, 0.0]]


def test_nul_becomes_a_space_of_the_same_length() -> None:
    assert checked_texts(["a\0b"]) == ["a b"]
