"""A fourth store is one entry point and one subclass, in a package that this project knows nothing of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "anchorage-parrot"
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the package is installed, as from an index but without one."""
    pytest.importorskip("hatchling", reason="needs hatchling to build the package")
    source, target = tmp_path_factory.mktemp("parrot") / "source", tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    _run(*PIP, "--no-build-isolation", "--target", str(target), str(source))
    return target


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the package's tests and their settings, but without its source."""
    for name in ("pyproject.toml", "test_parrot.py"):
        shutil.copy(PACKAGE / name, tmp_path / name)
    return tmp_path


def _run(*arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        cwd=environment.pop("cwd", None),
        env=os.environ | environment,
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done


def test_the_whole_suite_passes_on_the_installed_store_and_reports_what_it_lacks(installed: Path, folder: Path) -> None:
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--stores-report", "results.json", "test_parrot.py")
    done = _run(*arguments, PYTHONPATH=str(installed), cwd=str(folder))

    results = json.loads((folder / "results.json").read_bytes())["Parrot"]
    outcomes = [one["outcome"] for part in results["behaviours"].values() for one in part.values()]
    assert "passed" in done.stdout
    assert results["properties"]["kind"] == "parrot"
    assert results["properties"]["reasons"]["lexical"] == "a parrot knows sounds, not words"
    assert outcomes.count("offered") > 50
    assert "not offered" in outcomes
    assert "failed" not in outcomes


def test_the_service_takes_the_store_by_its_kind_alone(installed: Path, tmp_path: Path) -> None:
    arguments = ("-m", "rag.cli", "check-config", "--json", "--data-dir", str(tmp_path))
    found = _run(*arguments, check=False, PYTHONPATH=str(installed), ANCHORAGE_STORE__KIND="parrot")
    missing = _run(*arguments, check=False, ANCHORAGE_STORE__KIND="parrot")

    assert _store_check(found)["ok"], found.stdout
    assert not _store_check(missing)["ok"]
    assert "pgvector" in _store_check(missing)["message"]


def _store_check(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    checks: list[dict[str, object]] = json.loads(done.stdout)["checks"]
    return next(each for each in checks if each["name"] == "store")
