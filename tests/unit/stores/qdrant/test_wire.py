"""Frames arrive whole, however they are cut on the way."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.qdrant.wire import FrameError, FrameReader, frame, sparse, terms_of, vectors_of


@given(st.lists(st.tuples(st.dictionaries(st.text(), st.integers(0, 9)), st.binary(max_size=50))), st.integers(1, 40))
def test_frames_come_as_they_were_sent_in_pieces_of_any_size(
    sent: list[tuple[dict[str, int], bytes]], size: int
) -> None:
    stream = b"".join(frame(header, body) for header, body in sent)
    reader = FrameReader()

    received = [each for start in range(0, len(stream), size) for each in reader.feed(stream[start : start + size])]

    assert received == sent


@pytest.mark.parametrize(
    "sent", [struct.pack("<II", 2**31, 0), struct.pack("<II", 3, 0) + b"abc", struct.pack("<II", 2, 0) + b"[]"]
)
def test_what_is_no_frame_is_refused(sent: bytes) -> None:
    with pytest.raises(FrameError):
        list(FrameReader().feed(sent))


def test_vectors_and_terms_keep_their_bits() -> None:
    vectors = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    terms = {2**32 - 1: 0.1, 7: 2.0}

    assert np.array_equal(vectors_of(vectors.tobytes(), 3), vectors)
    assert terms_of(sparse(terms)) == terms
