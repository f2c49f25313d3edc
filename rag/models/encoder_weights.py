"""Encoder weights as the package data stores them: fp16, or int8 with one scale a row.

An int8 matrix ``name`` has a companion ``name::scale``, fp16 of shape (rows,); its values are
``int8 × scale`` of their row, and zero is zero.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from rag.core.errors import ConfigurationError

SCALE_SUFFIX = "::scale"
_LARGEST = 127


def read_encoder(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of the file as float32 by name.

    Raises ConfigurationError when the file is damaged or an int8 matrix has no scales.
    """
    try:
        stored = load_file(path)
    except SafetensorError as error:
        raise ConfigurationError(f"{path} is damaged: {error}") from error
    return {name: _as_float(name, stored, path) for name in stored if not name.endswith(SCALE_SUFFIX)}


def pack_rows(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``matrix`` (rows, columns) as int8 and its fp16 scales (rows,); symmetric, to nearest."""
    largest = matrix.float().abs().amax(dim=1)
    scale = (largest / _LARGEST).half().clamp(min=torch.finfo(torch.half).tiny)
    values = (matrix.float() / scale.float()[:, None]).round().clamp(-_LARGEST, _LARGEST)
    return values.to(torch.int8), scale


def unpack_rows(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the float32 matrix that ``pack_rows`` stored."""
    return values.float() * scale.float()[:, None]


def _as_float(name: str, stored: dict[str, torch.Tensor], path: Path) -> torch.Tensor:
    tensor = stored[name]
    if tensor.dtype is not torch.int8:
        return tensor.float()
    scale = stored.get(name + SCALE_SUFFIX)
    if scale is None or scale.shape != tensor.shape[:1]:
        raise ConfigurationError(f"{path} has no scales for {name}")
    return unpack_rows(tensor, scale)
