"""A packed model of a few kilobytes, in the format of the real one."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + [
    (piece, -float(rank + 1))
    for rank, piece in enumerate(["▁", "▁query", ":", "▁cat", "▁the", "s", "▁猫", "猫", "1", "a"])
]
FOLDED = {"\t": " ", "\n": " ", "\u200b": " ", "\x01": "", "１": "1"}
HIDDEN, LAYERS, HEADS, FEED_FORWARD, VOCABULARY, POSITIONS = 32, 1, 2, 64, len(PIECES) + 2, 512


def _packed_blocks(generator: np.random.Generator, count: int) -> bytes:
    blocks = np.zeros(count // 32, dtype=[("scale", "<f2"), ("nibbles", "u1", (16,))])
    blocks["scale"] = 0.05
    blocks["nibbles"] = generator.integers(0, 256, size=blocks["nibbles"].shape)
    return blocks.tobytes()


def _tensors() -> dict[str, tuple[int, int, bytes]]:
    generator = np.random.default_rng(1)
    sizes = {"q": HIDDEN, "k": HIDDEN, "v": HIDDEN, "ao": HIDDEN, "fi": FEED_FORWARD, "fo": HIDDEN}
    matrices = {"emb.word": VOCABULARY * HIDDEN} | {
        f"l0.{name}.w": size * (FEED_FORWARD if name == "fo" else HIDDEN) for name, size in sizes.items()
    }
    plain = {"emb.pos": POSITIONS * HIDDEN, "emb.type": 2 * HIDDEN} | {f"l0.{name}.b": n for name, n in sizes.items()}
    plain |= {f"{name}.{part}": HIDDEN for name in ("emb.ln", "l0.aln", "l0.oln") for part in "wb"}
    packed = {name: (1, count, _packed_blocks(generator, count)) for name, count in matrices.items()}
    floats = {name: (0, n, generator.normal(size=n).astype("<f4").tobytes()) for name, n in plain.items()}
    return packed | floats


def _vocabulary() -> bytes:
    blobs = [piece.encode() for piece, _ in PIECES]
    offsets = np.cumsum([0, *map(len, blobs)]).astype("<u4").tobytes()
    scores = np.array([score for _, score in PIECES], dtype="<f4").tobytes()
    folded = b"".join(
        struct.pack(f"<IB{len(target)}I", ord(source), len(target), *map(ord, target))
        for source, target in FOLDED.items()
    )
    blob = b"".join(blobs)
    head = struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(blob))
    return head + offsets + scores + blob + struct.pack("<iI", len(FOLDED), len(folded)) + folded


def packed_bytes() -> bytes:
    header = b"E5S1" + struct.pack(
        "<I7ifi", 1, HIDDEN, LAYERS, HEADS, FEED_FORWARD, VOCABULARY, POSITIONS, 2, 1e-12, 32
    )
    start = header + _vocabulary()
    tensors = _tensors()
    directory_size = 4 + sum(2 + len(name) + 21 for name in tensors)
    offset, directory, data = len(start) + directory_size, [struct.pack("<i", len(tensors))], []
    for name, (kind, count, raw) in tensors.items():
        encoded = name.encode()
        directory.append(
            struct.pack("<H", len(encoded)) + encoded + struct.pack("<BIQQ", kind, count, offset, len(raw))
        )
        data.append(raw)
        offset += len(raw)
    return start + b"".join(directory) + b"".join(data)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A whole packed file of a model with one layer of 32 dimensions."""
    path = tmp_path / "tiny.bin"
    path.write_bytes(packed_bytes())
    return path
