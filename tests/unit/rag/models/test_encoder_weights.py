from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from rag.core.errors import ConfigurationError
from rag.models.encoder_weights import SCALE_SUFFIX, pack_rows, read_encoder, unpack_rows


def test_packing_a_row_is_wrong_by_at_most_half_a_step() -> None:
    matrix = torch.randn(8, 64, generator=torch.Generator().manual_seed(1)) * torch.logspace(-3, 2, 8)[:, None]

    values, scale = pack_rows(matrix)

    error = (unpack_rows(values, scale) - matrix).abs().amax(dim=1)
    assert values.dtype is torch.int8
    # The scale itself is rounded to fp16, which can cut the largest weight by 127 half-ulps of it.
    assert bool((error <= scale.float() * 0.57).all())


def test_a_row_of_zeros_stays_zero() -> None:
    values, scale = pack_rows(torch.zeros(2, 4))

    assert unpack_rows(values, scale).tolist() == [[0.0] * 4] * 2


def test_int8_and_fp16_tensors_are_read_as_float32(tmp_path: Path) -> None:
    matrix = torch.tensor([[1.0, -2.0], [0.5, 0.25]])
    values, scale = pack_rows(matrix)
    save_file({"m": values, "m" + SCALE_SUFFIX: scale, "b": torch.ones(3).half()}, tmp_path / "e.safetensors")

    tensors = read_encoder(tmp_path / "e.safetensors")

    assert set(tensors) == {"m", "b"}
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert torch.allclose(tensors["m"], matrix, atol=0.01)


def test_an_int8_matrix_without_scales_is_refused(tmp_path: Path) -> None:
    save_file({"m": torch.zeros(2, 2, dtype=torch.int8)}, tmp_path / "e.safetensors")

    with pytest.raises(ConfigurationError, match="no scales for m"):
        read_encoder(tmp_path / "e.safetensors")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "e.safetensors").write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{")

    with pytest.raises(ConfigurationError, match="damaged"):
        read_encoder(tmp_path / "e.safetensors")
