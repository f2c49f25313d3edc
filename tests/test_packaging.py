"""The wheel ships five packages with their data and nothing else, and works from an empty folder."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("rag", "ingest", "stores", "rerank", "benchmarks")
MEGABYTE = 1_000_000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(REPOSITORY)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("anchorage-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("package", PACKAGES)
def test_each_top_level_package_belongs_to_this_distribution_alone(package: str) -> None:
    owners = importlib.metadata.packages_distributions().get(package, ["anchorage"])

    assert set(owners) == {"anchorage"}


def test_the_wheel_holds_the_five_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}

    assert top == set(PACKAGES)


def test_the_wheel_carries_types_migrations_and_weights_within_their_bound(wheel: Path) -> None:
    sizes = {info.filename: info.file_size for info in zipfile.ZipFile(wheel).infolist()}

    weights = sum(size for name, size in sizes.items() if name.startswith("rerank/weights/"))

    assert all(f"{package}/py.typed" in sizes for package in PACKAGES)
    assert any(name.startswith("rag/catalog/migrations/") and name.endswith(".sql") for name in sizes)
    assert "rerank/weights/README.md" in sizes
    assert 20 * MEGABYTE < weights <= 45 * MEGABYTE


def test_the_installed_wheel_runs_its_unit_tests_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "tests" / "unit" / "rag" / "core", tmp_path / "tests" / "core")
    shutil.copytree(REPOSITORY / "tests" / "unit" / "rag" / "lexical", tmp_path / "tests" / "lexical")
    shutil.copy(REPOSITORY / "tests" / "conftest.py", tmp_path / "tests")
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_installed_command_answers_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    probe = (
        "import rag, sys; from rag.cli import main; print(rag.__file__); sys.argv = ['anchorage', 'version']; main()"
    )

    command = [sys.executable, "-P", "-c", probe]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert str(installed) in done.stdout
    assert "anchorage" in done.stdout.lower()
