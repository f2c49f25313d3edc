"""The dimension of a model is known from its folder, before its weights are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag.embedding.model_folder import folder_dimension


def write(folder: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


MODULES = [{"path": ""}, {"path": "1_Pooling"}]


@pytest.mark.parametrize(
    ("files", "dimension"),
    [
        pytest.param({"config.json": {"hidden_size": 384}}, 384, id="hidden size"),
        pytest.param(
            {"modules.json": MODULES, "1_Pooling/config.json": {"word_embedding_dimension": 8}}, 8, id="pooling"
        ),
        pytest.param(
            {
                "modules.json": MODULES,
                "1_Pooling/config.json": {
                    "word_embedding_dimension": 8,
                    "pooling_mode_mean_tokens": True,
                    "pooling_mode_max_tokens": True,
                    "pooling_mode_cls_token": False,
                },
            },
            16,
            id="two poolings side by side",
        ),
        pytest.param(
            {
                "modules.json": [*MODULES, {"path": "2_Dense"}],
                "1_Pooling/config.json": {"word_embedding_dimension": 8},
                "2_Dense/config.json": {"in_features": 8, "out_features": 4},
            },
            4,
            id="a dense layer on top",
        ),
        pytest.param(
            {"config.json": {"hidden_size": 384}, "config_sentence_transformers.json": {"truncate_dim": 128}},
            128,
            id="cut vectors",
        ),
        pytest.param({}, None, id="no files"),
    ],
)
def test_the_files_say_the_dimension(tmp_path: Path, files: dict[str, Any], dimension: int | None) -> None:
    write(tmp_path, files)

    assert folder_dimension(tmp_path) == dimension


def test_a_broken_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")

    assert folder_dimension(tmp_path) is None
