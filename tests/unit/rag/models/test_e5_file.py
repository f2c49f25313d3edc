from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from rag.core.errors import ConfigurationError
from rag.models.e5_file import read_e5_file, unpack_q4


def test_a_block_holds_weight_j_in_the_low_nibble_and_weight_j_plus_16_in_the_high_one() -> None:
    block = struct.pack("<e16B", 0.5, *(low | (15 - low) << 4 for low in range(16)))

    weights = unpack_q4(block)

    assert weights.dtype == np.float32
    assert weights[:16].tolist() == [(low - 8) * 0.5 for low in range(16)]
    assert weights[16:].tolist() == [(7 - low) * 0.5 for low in range(16)]


def test_header_vocabulary_and_folding_are_read_as_written(packed: Path) -> None:
    opened = read_e5_file(packed)

    assert (opened.shape.hidden, opened.shape.layers, opened.shape.feed_forward) == (32, 1, 64)
    assert opened.shape.epsilon == pytest.approx(1e-12)
    assert opened.vocabulary.pieces[7] == ("▁cat", -4.0)
    assert opened.vocabulary.folded["\t"] == " "
    assert opened.vocabulary.folded["\x01"] == ""


def test_tensors_have_the_stated_number_of_weights(packed: Path) -> None:
    opened = read_e5_file(packed)

    assert opened.tensor("l0.fo.w").size == 64 * 32
    assert opened.tensor("emb.ln.w").size == 32


def test_an_unknown_tensor_is_a_configuration_error(packed: Path) -> None:
    opened = read_e5_file(packed)

    with pytest.raises(ConfigurationError, match=r"l9\.q\.w"):
        opened.tensor("l9.q.w")


@pytest.mark.parametrize("kept", [0, 3, 20, 60, 200, 700, 2000, -1])
def test_a_file_that_ends_early_is_refused_wherever_it_ends(packed: Path, kept: int) -> None:
    packed.write_bytes(packed.read_bytes()[:kept])

    with pytest.raises(ConfigurationError, match=r"tiny\.bin"):
        read_e5_file(packed)


def test_a_file_of_another_format_is_refused(packed: Path) -> None:
    packed.write_bytes(b"GGUF" + packed.read_bytes()[4:])

    with pytest.raises(ConfigurationError, match="not a packed e5 model"):
        read_e5_file(packed)
