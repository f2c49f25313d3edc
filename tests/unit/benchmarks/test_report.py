"""A report tells whether its bars hold, and where its figures come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.report import Bar, Report, write_json


def report(*bars: Bar) -> Report:
    return Report(name="sample", columns=("set", "value"), rows=[("小集", 0.5)], bars=bars, seed=3)


@pytest.mark.parametrize(
    ("value", "relation", "holds"),
    [(1.0, ">=", True), (0.9, ">=", False), (1.0, "<=", True), (1.1, "<=", False), (None, ">=", False)],
)
def test_a_bar_holds_only_when_measured_and_within_its_bound(value: float | None, relation: str, holds: bool) -> None:
    assert Bar(name="x", value=value, bound=1.0, relation=relation).holds is holds  # type: ignore[arg-type]


def test_one_broken_bar_breaks_the_report() -> None:
    kept = Bar(name="kept", value=2, bound=1, relation=">=")
    broken = Bar(name="broken", value=0, bound=1, relation=">=")

    assert report(kept).holds
    assert not report(kept, broken).holds
    assert "FAILS  broken" in report(kept, broken).render()


def test_the_written_report_names_its_origin(tmp_path: Path) -> None:
    file = tmp_path / "report.json"

    write_json(report(), file)

    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["rows"] == [["小集", 0.5]]
    assert {"revision", "cpu", "libraries", "command"} <= set(written["origin"])
    assert list(tmp_path.iterdir()) == [file]
