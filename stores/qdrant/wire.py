"""Frames between the host process of the embedded engine and its clients.

A frame is two unsigned 32-bit little-endian lengths, a JSON header and a body of raw bytes. Vectors travel in the
body as little-endian float32, everything else in the header. An answer carries the ``call`` of its request.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import orjson

from rag.core.types import Terms, Vectors

MAX_FRAME_BYTES = 64 << 20
"""A longer frame is a fault, not a request."""
Header: TypeAlias = dict[str, Any]

_LENGTHS = struct.Struct("<II")
_NO_VECTORS = np.empty((0, 0), np.float32)


class FrameError(ValueError):
    """What came is no frame."""


def frame(header: Header, body: bytes | memoryview = b"") -> bytes:
    """The bytes of one frame. Raises ``FrameError`` when they are too many."""
    encoded = orjson.dumps(header)
    if len(encoded) + len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"a frame holds at most {MAX_FRAME_BYTES} bytes")
    return b"".join((_LENGTHS.pack(len(encoded), len(body)), encoded, body))


class FrameReader:
    """Cuts what arrives into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Header, bytes]]:
        """The frames that are complete now. Raises ``FrameError``."""
        self._buffer += data
        while len(self._buffer) >= _LENGTHS.size:
            header, body = _LENGTHS.unpack_from(self._buffer)
            end = _LENGTHS.size + header + body
            if end > MAX_FRAME_BYTES + _LENGTHS.size:
                raise FrameError("what arrived is no frame")
            if len(self._buffer) < end:
                return
            whole = bytes(self._buffer[_LENGTHS.size : end])
            del self._buffer[:end]
            yield _parsed(whole[:header]), whole[header:]


def vectors_of(body: bytes, rows: int) -> Vectors:
    """The ``rows`` vectors of a body, shape ``(rows, dimension)``."""
    return np.frombuffer(body, dtype="<f4").reshape(rows, -1) if rows else _NO_VECTORS


def sparse(terms: Terms) -> list[list[Any]]:
    """Term ids in order, and their weights."""
    ids = sorted(terms)
    return [ids, [float(terms[id]) for id in ids]]


def terms_of(pair: Sequence[Sequence[Any]]) -> Terms:
    """The inverse of :func:`sparse`."""
    return dict(zip(*pair, strict=True))


def _parsed(encoded: bytes) -> Header:
    try:
        header = orjson.loads(encoded)
    except orjson.JSONDecodeError as exc:
        raise FrameError("what arrived is no frame") from exc
    if not isinstance(header, dict):
        raise FrameError("what arrived is no frame")
    return header
