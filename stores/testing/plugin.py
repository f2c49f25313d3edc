"""The pytest plugin that keeps the suite's results: ``-p stores.testing.plugin --stores-report FILE``."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from stores.testing.engine import Conformance
from stores.testing.results import NOT_OFFERED, EngineResults, Results, write_results


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--stores-report``."""
    group = parser.getgroup("stores", "conformance of vector stores")
    group.addoption("--stores-report", metavar="FILE", type=Path, help="merge the suite's results into this JSON file")


def pytest_configure(config: pytest.Config) -> None:
    """Know the suite's marker, and collect results when asked."""
    config.addinivalue_line("markers", "slow: takes longer than ten seconds")
    if file := config.getoption("stores_report"):
        config.pluginmanager.register(_Collector(file), "stores-report")


class _Collector:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._results: Results = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note what became of a test of the suite."""
        report = yield
        if isinstance(item, pytest.Function) and issubclass(item.cls or object, Conformance):
            self._note(item, report)
        return report

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        write_results(self._file, self._results)

    def _note(self, item: pytest.Function, report: pytest.TestReport) -> None:
        engine: type[Conformance] = item.cls
        results = self._results.setdefault(engine_name(engine), EngineResults(notes=dict(engine.notes)))
        part, behaviour = _part(item), item.originalname.removeprefix("test_").replace("_", " ")
        case = item.callspec.id if hasattr(item, "callspec") else ""
        if report.skipped:
            reason = _reason(report)
            if reason.startswith(NOT_OFFERED):
                reason = reason.removeprefix(NOT_OFFERED)
                results.add(part, behaviour, case=case, outcome="not offered", reason=reason)
            else:
                results.not_run = results.not_run or reason
        elif report.failed:
            results.add(part, behaviour, case=case, outcome="failed", reason=report.when or "")
        elif report.when == "call":
            results.add(part, behaviour, case=case, outcome="offered")
            results.properties.update(dict(item.user_properties))


def engine_name(engine: type[Conformance]) -> str:
    """What a test class calls its engine."""
    return engine.engine or engine.__name__.removeprefix("Test")


def _part(item: pytest.Function) -> str:
    owner: type = next(each for each in item.cls.__mro__ if item.originalname in vars(each))
    return (owner.__doc__ or owner.__name__).strip().splitlines()[0].rstrip(".")


def _reason(report: pytest.TestReport) -> str:
    where = report.longrepr
    return str(where[2] if isinstance(where, tuple) else where).removeprefix("Skipped: ")
