from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rag.core.errors import ConfigurationError, DataFolderError, MissingExtraError, StorageFullError
from rag.models.prepared import list_models, prepare, resolve
from rag.models.spec import ModelKind, ModelSpec, Precision, Source

DEADLINE = 30.0

RECIPES = """
import os, time
from pathlib import Path

def write(folder, *, sources, precision, report):
    report("writing")
    (folder / "weights").write_bytes(sources["weights"].read_bytes())
    (folder / "precision").write_text(precision)
    with Path(os.environ.get("TOY_LOG", os.devnull)).open("a") as log:
        log.write("written\\n")

def fail(folder, *, sources, precision, report):
    (folder / "weights").write_text("half")
    raise OSError(NUMBER, "no")

def hang(folder, *, sources, precision, report):
    (folder / "weights").write_text("half")
    Path(os.environ["TOY_LOG"]).write_text("started")
    time.sleep(60)
""".replace("NUMBER", str(errno.ENOSPC))

SPEC = ModelSpec(
    name="toy",
    kind=ModelKind.EMBEDDER,
    languages=("en", "zh"),
    dimension=4,
    parameters=1,
    distribution="toy-weights",
    install="pip install 'anchorage[toy]'",
    sources=(Source(role="weights", package="toy_weights", file="data/weights.bin"),),
    recipe="toy_weights:write",
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An importable package that carries weights and recipes."""
    site = tmp_path / "site"
    folder = site / "toy_weights"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text(RECIPES)
    (folder / "data" / "weights.bin").write_bytes(b"numbers")
    monkeypatch.syspath_prepend(str(site))
    yield folder
    sys.modules.pop("toy_weights", None)


@pytest.fixture
def models() -> Mapping[str, ModelSpec]:
    return {"toy": SPEC}


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "log"
    monkeypatch.setenv("TOY_LOG", str(path))
    return path


def _visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_the_folder_holds_what_the_recipe_wrote(
    package: Path, models: Mapping[str, ModelSpec], models_dir: Path
) -> None:
    messages: list[str] = []

    folder = prepare("toy", models_dir=models_dir, models=models, report=messages.append)

    assert folder.parent == models_dir
    assert (folder / "weights").read_bytes() == b"numbers"
    assert messages[0].startswith("preparing toy")
    assert "writing" in messages


def test_a_second_call_finds_the_folder_without_writing(
    package: Path, models: Mapping[str, ModelSpec], models_dir: Path, log: Path
) -> None:
    first = prepare("toy", models_dir=models_dir, models=models)

    second = prepare("toy", models_dir=models_dir, models=models, report=lambda _: pytest.fail("reported"))

    assert second == first
    assert log.read_text() == "written\n"


def test_each_stored_format_has_a_folder_of_its_own(
    package: Path, models: Mapping[str, ModelSpec], models_dir: Path
) -> None:
    full = prepare("toy", models_dir=models_dir, models=models, precision=Precision.FLOAT32)
    int8 = prepare("toy", models_dir=models_dir, models=models, precision=Precision.INT8)
    half = prepare("toy", models_dir=models_dir, models=models, precision=Precision.BFLOAT16)

    assert full == int8
    assert full != half
    assert full.is_dir()


def test_changed_weights_make_a_new_folder_that_replaces_the_old_one(
    package: Path, models: Mapping[str, ModelSpec], models_dir: Path
) -> None:
    old = prepare("toy", models_dir=models_dir, models=models)
    (package / "data" / "weights.bin").write_bytes(b"better numbers")

    new = prepare("toy", models_dir=models_dir, models=models)

    assert (new / "weights").read_bytes() == b"better numbers"
    assert _visible(models_dir) == [new.name]
    assert old != new


def test_a_folder_that_lost_a_file_is_made_again(
    package: Path, models: Mapping[str, ModelSpec], models_dir: Path
) -> None:
    folder = prepare("toy", models_dir=models_dir, models=models)
    (folder / "weights").write_bytes(b"num")

    again = prepare("toy", models_dir=models_dir, models=models)

    assert again == folder
    assert (again / "weights").read_bytes() == b"numbers"


def test_a_full_disk_leaves_nothing_and_the_next_call_succeeds(
    package: Path, models: Mapping[str, ModelSpec], models_dir: Path
) -> None:
    failing = {"toy": replace(SPEC, recipe="toy_weights:fail")}

    with pytest.raises(StorageFullError):
        prepare("toy", models_dir=models_dir, models=failing)

    assert _visible(models_dir) == []
    assert prepare("toy", models_dir=models_dir, models=models).is_dir()


def test_too_little_free_space_is_found_before_anything_is_written(package: Path, models_dir: Path) -> None:
    huge = {"toy": replace(SPEC, parameters=10**18)}

    with pytest.raises(StorageFullError, match="toy needs about"):
        prepare("toy", models_dir=models_dir, models=huge)

    assert _visible(models_dir) == []


def test_an_unknown_name_lists_the_known_ones(models: Mapping[str, ModelSpec], models_dir: Path) -> None:
    with pytest.raises(ConfigurationError, match="known models: toy"):
        prepare("tyo", models_dir=models_dir, models=models)


def test_a_missing_package_names_the_command_that_installs_it(
    models: Mapping[str, ModelSpec], models_dir: Path
) -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'anchorage\[toy\]'"):
        prepare("toy", models_dir=models_dir, models=models)

    assert not models_dir.exists()


def test_a_package_without_the_file_is_a_configuration_error(
    package: Path, models: Mapping[str, ModelSpec], models_dir: Path
) -> None:
    (package / "data" / "weights.bin").unlink()

    with pytest.raises(ConfigurationError, match="does not carry"):
        prepare("toy", models_dir=models_dir, models=models)


def test_a_recipe_whose_libraries_are_missing_names_the_extra(package: Path, models_dir: Path) -> None:
    broken = {"toy": replace(SPEC, recipe="toy_weights.absent:write")}

    with pytest.raises(MissingExtraError, match=r"anchorage\[local\]"):
        prepare("toy", models_dir=models_dir, models=broken)


def test_a_models_folder_that_cannot_be_made_is_a_data_folder_error(
    package: Path, models: Mapping[str, ModelSpec], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DataFolderError):
        prepare("toy", models_dir=tmp_path / "file" / "models", models=models)


def _start(package: Path, models_dir: Path, *, recipe: str, log: Path) -> subprocess.Popen[bytes]:
    script = f"""
        from dataclasses import replace
        from pathlib import Path
        from rag.models.prepared import prepare
        from rag.models.spec import ModelKind, ModelSpec, Source
        spec = ModelSpec(name="toy", kind=ModelKind.EMBEDDER, languages=(), dimension=4, parameters=1,
            distribution="toy", install="", recipe="toy_weights:{recipe}",
            sources=(Source(role="weights", package="toy_weights", file="data/weights.bin"),))
        prepare("toy", models_dir=Path({str(models_dir)!r}), models={{"toy": spec}})
    """
    paths = [str(package.parent), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TOY_LOG": str(log)}
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], env=environment)


def _await_file(path: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + DEADLINE
    while not path.exists():
        assert process.poll() is None, "the process ended early"
        assert time.monotonic() < until, "the recipe did not start in time"
        time.sleep(0.02)


def test_a_killed_process_leaves_no_folder_and_does_not_block_the_next_call(
    package: Path, models: Mapping[str, ModelSpec], models_dir: Path, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    process = _start(package, models_dir, recipe="hang", log=started)
    _await_file(started, process)

    process.send_signal(signal.SIGKILL)
    process.wait(DEADLINE)

    assert _visible(models_dir) == []
    folder = prepare("toy", models_dir=models_dir, models=models, deadline=0)
    assert (folder / "weights").read_bytes() == b"numbers"
    assert not list(models_dir.glob(".*.new-*"))


def test_of_processes_that_start_together_one_writes_and_all_succeed(
    package: Path, models_dir: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    processes = [_start(package, models_dir, recipe="write", log=log) for _ in range(4)]
    codes = [process.wait(DEADLINE) for process in processes]

    assert codes == [0, 0, 0, 0]
    assert log.read_text() == "written\n"
    assert len(_visible(models_dir)) == 1


def test_a_known_name_resolves_to_its_prepared_folder(
    package: Path, models: Mapping[str, ModelSpec], models_dir: Path
) -> None:
    resolved = resolve("toy", models_dir=models_dir, models=models)

    assert resolved == str(prepare("toy", models_dir=models_dir, models=models))


def test_a_folder_resolves_to_its_absolute_path(
    models: Mapping[str, ModelSpec], models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "我的模型").mkdir()
    (tmp_path / "我的模型" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)

    assert resolve("./我的模型", models_dir=models_dir, models=models) == str(tmp_path / "我的模型")


def test_a_hub_name_resolves_to_its_folder_in_the_local_cache(
    models: Mapping[str, ModelSpec], models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "models--cats--small" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("a" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))

    assert resolve("cats/small", models_dir=models_dir, models=models) == str(snapshot)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cats/large", "cats/large is not in the local hub cache.*toy"),
        ("cats/..", "not in the local hub cache"),
        ("nonexist", "no model is called 'nonexist'; known models: toy"),
        ("a/b/c", "no model is called"),
    ],
)
def test_a_name_that_is_nowhere_is_a_configuration_error_that_says_what_is_known(
    models: Mapping[str, ModelSpec], models_dir: Path, name: str, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        resolve(name, models_dir=models_dir, models=models)


def test_a_folder_without_a_model_is_a_configuration_error(models: Mapping[str, ModelSpec], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no model"):
        resolve(str(tmp_path), models_dir=tmp_path / "models", models=models)


def test_a_known_model_of_another_kind_is_a_configuration_error(
    models: Mapping[str, ModelSpec], models_dir: Path
) -> None:
    with pytest.raises(ConfigurationError, match="toy cannot be the reranker"):
        resolve("toy", models_dir=models_dir, kind=ModelKind.RERANKER, models=models)


@pytest.mark.parametrize("path", ["/no/such/folder", "./none", "~/no-such-model-folder"])
def test_a_path_without_a_folder_is_a_configuration_error(
    models: Mapping[str, ModelSpec], models_dir: Path, path: str
) -> None:
    with pytest.raises(ConfigurationError, match="there is no model folder"):
        resolve(path, models_dir=models_dir, models=models)


def test_the_list_tells_installed_and_prepared_apart(
    package: Path, models: Mapping[str, ModelSpec], models_dir: Path
) -> None:
    absent = replace(SPEC, name="absent", sources=(replace(SPEC.sources[0], package="no_such_package"),))
    both = {**models, "absent": absent}
    before = list_models(models_dir=models_dir, models=both)
    folder = prepare("toy", models_dir=models_dir, models=models)

    after = list_models(models_dir=models_dir, models=both)

    assert [(status.installed, status.prepared) for status in before] == [(True, False), (False, False)]
    assert [(status.installed, status.folder) for status in after] == [(True, folder), (False, None)]
    assert after[0].bytes == sum(path.stat().st_size for path in folder.iterdir())
