"""`anchorage bench` chooses engines only where there are engines to choose, and ends with 1 on a broken bar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import recall
from benchmarks.cli import BENCHMARKS, BY_STORE, bench
from benchmarks.report import Bar, Report


def test_an_engine_can_be_chosen_only_for_the_benchmarks_of_stores() -> None:
    result = CliRunner().invoke(bench, ["overhead", "--store", "pgvector"])

    assert set(BY_STORE) < set(BENCHMARKS)
    assert result.exit_code == 2
    assert "--store goes with recall" in result.output


@pytest.mark.parametrize(("value", "code"), [(0.99, 0), (0.5, 1)])
def test_the_chosen_engines_are_measured_and_a_broken_bar_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: float, code: int
) -> None:
    given: dict[str, Any] = {}

    async def measure(**options: Any) -> Report:
        given.update(options)
        bar = Bar(name="recall", value=value, bound=0.95, relation=">=")
        return Report(name="recall", columns=("engine",), rows=[["memory"]], bars=[bar], seed=1, notes=["a note"])

    monkeypatch.setattr(recall, "measure", measure)
    file = tmp_path / "report.json"

    result = CliRunner().invoke(bench, ["recall", "--quick", "--store", "memory", "--seed", "3", "--json", str(file)])

    assert result.exit_code == code
    assert given == {"seed": 3, "quick": True, "stores": ("memory",)}
    assert "a note" in result.output
    assert json.loads(file.read_text(encoding="utf-8"))["notes"] == ["a note"]
