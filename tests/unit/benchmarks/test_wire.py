"""The wire counter counts waits, wherever the stream is cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.wire import Frames


def packet(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


STREAM = b"".join(
    [
        packet(b"", b"\0\3\0\0user\0x\0\0"),
        packet(b"Q", b"BEGIN\0"),
        packet(b"P", b"S\0select 1\0"),
        packet(b"B", b"S" * 300),
        packet(b"S", b""),
        packet(b"B", b"Q" * 7),
        packet(b"E", b"\0"),
        packet(b"S", b""),
    ]
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_each_sync_and_query_is_one_wait_however_the_stream_is_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    frames = Frames()

    for start, end in pairwise(edges):
        frames.feed(STREAM[start:end])

    assert frames.waits == 3
