"""vLLM's interpreter is found beside our environment too."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.generation.interpreter import find_interpreter


def test_a_relative_interpreter_is_found_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").write_text("")
    monkeypatch.chdir(tmp_path)

    assert find_interpreter(Path("python"), environment=tmp_path / "other" / ".venv") == tmp_path / "python"


def test_a_relative_interpreter_is_found_beside_our_own_environment(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "python").write_text("")

    assert find_interpreter(Path("vllm/python"), environment=tmp_path / ".venv") == tmp_path / "vllm" / "python"


def test_an_absolute_interpreter_is_taken_from_nowhere_else(tmp_path: Path) -> None:
    assert find_interpreter(tmp_path / "python", environment=tmp_path / ".venv") is None
