"""What became of the suite's tests, engine by engine: collected, kept as JSON, and read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

Outcome: TypeAlias = Literal["offered", "not offered", "failed"]
NOT_OFFERED = "not offered: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One promise as an engine keeps it: in ``kept`` cases; ``cases`` says for which it does not, and why."""

    outcome: Outcome
    kept: int = 0
    cases: Mapping[str, str] = field(default_factory=dict)

    def with_case(self, case: str, outcome: Outcome, reason: str) -> Behaviour:
        """The promise after one more test of it; the worst outcome counts."""
        order: tuple[Outcome, ...] = ("offered", "not offered", "failed")
        worst = max(self.outcome, outcome, key=order.index)
        cases = {**self.cases, case: reason} if outcome != "offered" else self.cases
        return Behaviour(outcome=worst, kept=self.kept + (outcome == "offered"), cases=cases)


@dataclass(slots=True, kw_only=True)
class EngineResults:
    """The results of one engine; ``not_run`` is the reason why its tests could not run where that was so."""

    notes: dict[str, str] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)
    behaviours: dict[str, dict[str, Behaviour]] = field(default_factory=dict)
    not_run: str = ""

    def add(self, part: str, behaviour: str, *, case: str, outcome: Outcome, reason: str = "") -> None:
        """Count one test in."""
        known = self.behaviours.setdefault(part, {}).get(behaviour, Behaviour(outcome="offered"))
        self.behaviours[part][behaviour] = known.with_case(case, outcome, reason)

    def to_json(self) -> dict[str, Any]:
        """The results as JSON values."""
        return {
            "not_run": self.not_run,
            "notes": self.notes,
            "properties": self.properties,
            "behaviours": {
                part: {name: asdict(one) for name, one in found.items()} for part, found in self.behaviours.items()
            },
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> EngineResults:
        """The inverse of :meth:`to_json`."""
        return cls(
            not_run=stored["not_run"],
            notes=dict(stored["notes"]),
            properties=dict(stored["properties"]),
            behaviours={
                part: {name: Behaviour(**one) for name, one in found.items()}
                for part, found in stored["behaviours"].items()
            },
        )


Results: TypeAlias = dict[str, EngineResults]


def read_results(file: Path) -> Results:
    """The results by engine; a file that does not exist holds none."""
    if not file.exists():
        return {}
    return {name: EngineResults.from_json(stored) for name, stored in orjson.loads(file.read_bytes()).items()}


def write_results(file: Path, results: Results) -> None:
    """Keep the results; engines that only the file knows stay, and so does what ran before where it could not now."""
    known = read_results(file)
    kept = known | {name: one for name, one in results.items() if not one.not_run or name not in known}
    plain = {name: kept[name].to_json() for name in sorted(kept)}
    file.write_bytes(orjson.dumps(plain, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
