"""The table of what each engine keeps: ``python -m stores.testing.report RESULTS.json > docs/stores.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rag.core.records import Feature, Quantization
from stores.testing.results import Behaviour, EngineResults, Results, read_results

INTRODUCTION = """\
# Stores

What each engine offers, as its tests found it. This page is generated: `python -m pytest tests/conformance
-p stores.testing.plugin --stores-report docs/stores.json`, then `python -m stores.testing.report docs/stores.json`.
Each line of the second table is a test that every engine runs; a number is a note below the table.
"""
OWN_STORE = """\
## A store of your own

A package with one entry point is a store that the service, the commands and the benchmarks take by its name
(`ANCHORAGE_STORE__KIND=parrot`), and one subclass of the suite tests all of the above on it. `tests/third_party` has
a whole example.

```toml
[project.entry-points."anchorage.stores"]
parrot = "anchorage_parrot:open_store"
```

```python
class TestParrot(StoreConformance):  # from stores.testing
    @pytest.fixture
    async def store(self):
        async with open_store({}) as store:
            yield store
```
"""
FIRST_NOTES = ("runs", "consistency", "filters", "limits")
FEATURES = {
    Feature.LEXICAL: "lexical and hybrid search",
    Feature.EXACT: "exact search on request",
    Feature.INDEX: "vector index",
    Quantization.HALF: "16-bit vectors",
    Quantization.INT8: "8-bit vectors",
}


def render(results: Results) -> str:
    """The page in Markdown."""
    ran = {name: one for name, one in results.items() if one.behaviours}
    missing = {name: one for name, one in results.items() if not one.behaviours}
    parts = [INTRODUCTION, "## Engines\n", _table("", ran, _facts(ran)), "## Behaviour\n", *_behaviours(ran)]
    if missing:
        parts += ["## Not run here\n", "".join(f"- {name}: {one.not_run}\n" for name, one in missing.items())]
    return "\n".join([*parts, OWN_STORE])


def _facts(ran: Results) -> Iterator[tuple[str, list[str]]]:
    engines = list(ran.values())
    yield "kind", [f"`{one.properties.get('kind', '')}`" for one in engines]
    known = {note for one in engines for note in one.notes}
    for note in (*(each for each in FIRST_NOTES if each in known), *sorted(known - set(FIRST_NOTES))):
        yield note, [one.notes.get(note, "") for one in engines]
    yield "greatest dimension", [f"{one.properties.get('max_dimension', 0):,}" for one in engines]
    for feature, label in FEATURES.items():
        yield label, [_offer(one, feature) for one in engines]
    yield "steps of three tenants at random", [f"{one.properties.get('steps', 0):,}" for one in engines]


def _offer(engine: EngineResults, feature: str) -> str:
    if feature in engine.properties.get("offered", ()):
        return "offered"
    return f"not offered: {engine.properties.get('reasons', {}).get(feature, 'unknown')}"


def _behaviours(ran: Results) -> Iterator[str]:
    for part in dict.fromkeys(part for one in ran.values() for part in one.behaviours):
        notes: list[str] = []
        names = dict.fromkeys(name for one in ran.values() for name in one.behaviours.get(part, {}))
        rows = [
            (name, [_cell(one.behaviours.get(part, {}).get(name), notes) for one in ran.values()]) for name in names
        ]
        yield _table(part, ran, rows)
        if notes:
            yield "".join(f"{number}. {note}\n" for number, note in enumerate(notes, start=1))


def _cell(behaviour: Behaviour | None, notes: list[str]) -> str:
    """``yes``, or the outcome with the numbers of its notes, to which new ones are added."""
    if behaviour is None:
        return "not run"
    if behaviour.outcome == "offered":
        return "yes"
    reasons = [f"{case}: {reason}" if case else reason for case, reason in behaviour.cases.items()]
    notes += [reason for reason in reasons if reason not in notes]
    numbers = ", ".join(str(notes.index(reason) + 1) for reason in reasons)
    partly = behaviour.outcome == "not offered" and behaviour.kept
    return f"{'in part' if partly else behaviour.outcome} ({numbers})"


def _table(corner: str, ran: Results, rows: Iterable[tuple[str, list[str]]]) -> str:
    lines = [[corner, *ran], ["---"] * (len(ran) + 1), *([label, *cells] for label, cells in rows)]
    return "".join(f"| {' | '.join(_escaped(cell) for cell in line)} |\n" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    merged: Results = {}
    for argument in sys.argv[1:]:
        merged |= read_results(Path(argument))
    sys.stdout.write(render(merged))
