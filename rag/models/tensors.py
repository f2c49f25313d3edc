"""The torch type in which a prepared folder stores its weights."""

from __future__ import annotations

import torch

from rag.models.spec import Precision

_STORED = {
    Precision.FLOAT32: torch.float32,
    Precision.INT8: torch.float32,
    Precision.BFLOAT16: torch.bfloat16,
    Precision.FLOAT16: torch.float16,
}


def storage_dtype(precision: Precision) -> torch.dtype:
    """Return the type on disk; int8 is made from float32 when the model is loaded."""
    return _STORED[precision]
