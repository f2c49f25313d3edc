from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag.core.errors import ConfigurationError

smollm2 = pytest.importorskip("rag.models.smollm2")


def test_unrotate_brings_pairwise_rows_back_to_halves() -> None:
    halves = np.arange(2 * 8 * 3, dtype=np.float32).reshape(16, 3)
    pairwise = halves.reshape(2, 2, 4, 3).swapaxes(1, 2).reshape(16, 3)

    restored = smollm2.unrotate(pairwise, heads=2)

    assert restored.tolist() == halves.tolist()


def test_a_damaged_file_is_a_configuration_error(tmp_path: Path) -> None:
    source = tmp_path / "broken.gguf"
    source.write_bytes(b"GGUF" + bytes(12))

    with pytest.raises(ConfigurationError, match=r"broken\.gguf"):
        smollm2.write_generator(
            tmp_path, sources={"gguf": source}, precision=smollm2.Precision.BFLOAT16, report=lambda _: None
        )
