from __future__ import annotations

import ast
from pathlib import Path

import pytest

from stores.testing.report import render
from stores.testing.results import EngineResults, Results, read_results, write_results

REPOSITORY = Path(__file__).resolve().parents[4]
RESULTS, PAGE = REPOSITORY / "docs" / "stores.json", REPOSITORY / "docs" / "stores.md"
SUITE = "StoreConformance"


def _engine(outcome: str = "offered", **given: str) -> EngineResults:
    engine = EngineResults(notes={"runs": "server"}, properties={"kind": "parrot", "offered": ["exact"]})
    engine.properties["reasons"] = {"lexical": "knows | no words"}
    engine.add("Search", "ranks", case="", outcome="offered")
    engine.add("Search", "finds all", case=given.get("case", ""), outcome=outcome, reason=given.get("reason", ""))
    return engine


def test_a_promise_kept_is_a_yes_and_one_that_is_not_has_its_note() -> None:
    page = render({"A": _engine(), "B": _engine("not offered", case="half", reason="too slow"), "C": _engine("failed")})

    assert "| finds all | yes | not offered (1) | failed (2) |" in page
    assert "\n1. half: too slow\n" in page


def test_a_promise_kept_for_some_parameters_is_kept_in_part() -> None:
    engine = _engine("not offered", case="int8", reason="no integers")

    engine.add("Search", "finds all", case="half", outcome="offered")

    assert "| finds all | in part (1) |" in render({"A": engine})


def test_an_engine_is_described_by_its_notes_and_capabilities() -> None:
    page = render({"A": _engine()})

    assert "| runs | server |" in page
    assert "| exact search on request | offered |" in page
    assert "| lexical and hybrid search | not offered: knows \\| no words |" in page


def test_an_engine_that_could_not_run_is_named_with_the_reason() -> None:
    page = render({"A": _engine(), "B": EngineResults(not_run="needs a server")})

    assert "- B: needs a server" in page


def test_new_results_join_the_old_ones_and_do_not_give_way_to_a_run_without_the_engine(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    write_results(file, {"A": _engine(), "B": _engine()})

    write_results(file, {"A": _engine("failed"), "B": EngineResults(not_run="no server"), "C": _engine()})

    kept = read_results(file)
    assert list(kept) == ["A", "B", "C"]
    assert render(kept) == render({"A": _engine("failed"), "B": _engine(), "C": _engine()})


@pytest.fixture(scope="module")
def results() -> Results:
    return read_results(RESULTS)


def test_the_page_on_stores_is_what_its_results_say(results: Results) -> None:
    assert PAGE.read_text() == render(results), (
        "run `python -m stores.testing.report docs/stores.json > docs/stores.md`"
    )


def test_the_page_has_every_engine_that_the_suite_runs_on(results: Results) -> None:
    classes = [
        node
        for file in sorted((REPOSITORY / "tests" / "conformance").glob("test_*.py"))
        for node in _suite_classes(ast.parse(file.read_text()))
    ]

    assert len(classes) >= 2
    assert set(results) == {_name_of(node) for node in classes}


def test_no_engine_breaks_a_promise(results: Results) -> None:
    broken = [
        (engine, name)
        for engine, one in results.items()
        for part in one.behaviours.values()
        for name, behaviour in part.items()
        if behaviour.outcome == "failed"
    ]

    assert broken == []


def _suite_classes(module: ast.Module) -> list[ast.ClassDef]:
    """The classes of tests that inherit the suite, by way of other classes of the module or not."""
    suite = {SUITE}
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef) and suite & {each.id for each in node.bases if isinstance(each, ast.Name)}:
            suite.add(node.name)
            found.append(node)
    return [node for node in found if node.name.startswith("Test")]


def _name_of(node: ast.ClassDef) -> str:
    for each in node.body:
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) and _targets(each) == ["engine"]:
            return str(each.value.value)
    return node.name.removeprefix("Test")


def _targets(assignment: ast.Assign) -> list[str]:
    return [each.id for each in assignment.targets if isinstance(each, ast.Name)]
