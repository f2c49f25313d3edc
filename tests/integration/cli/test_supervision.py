"""What happens to a real service when its processes end, one way or another."""

from __future__ import annotations

import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
import pytest

if TYPE_CHECKING:
    from tests.integration.cli.conftest import Home
else:
    Home = Any


def assert_usable(home: Home, word: str) -> None:
    """Ingest a document that holds a word, and find it."""
    file = home.folder / f"{word}.txt"
    file.write_text(f"This note is about the {word}.", encoding="utf-8")

    assert home.run("ingest", str(file), "-c", "notes").returncode == 0

    assert [hit["source"] for hit in home.json("search", "-c", "notes", word, "--mode", "lexical")["hits"]] == [
        file.name
    ]


def replaced(home: Home, name: str, old: int) -> bool:
    """Whether another process has taken the place of one, and the service answers."""
    new = home.processes().get(name)
    return new is not None and new.pid != old and home.answers()


@pytest.mark.parametrize("name", ["serve", "worker", "postgres"])
def test_what_is_killed_is_started_again_and_works(service: Home, name: str) -> None:
    victim = service.processes()[name].pid

    psutil.Process(victim).send_signal(signal.SIGKILL)

    service.until(lambda: replaced(service, name, victim))
    assert_usable(service, f"wombat{name}")


def test_a_stop_leaves_nothing_behind(home: Home) -> None:
    process = home.up()
    assert_usable(home, "aardvark")
    tree, address = home.tree(), urlsplit(home.url)

    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 0
    assert [pid for pid in tree if home.alive(pid)] == []
    with socket.create_server(("127.0.0.1", address.port or 0)):
        pass
    assert home.run("up", "--stop").stdout.startswith("nothing runs")
    assert not (home.data / "run" / "service.json").exists()


def test_after_a_killed_supervisor_nothing_is_left_and_the_next_one_has_everything(home: Home) -> None:
    process = home.up()
    assert_usable(home, "pangolin")
    tree = home.tree()

    process.kill()
    process.wait(30)
    home.up()

    assert [pid for pid in tree if home.alive(pid)] == []
    assert_usable(home, "quokka")
    assert [hit["source"] for hit in home.json("search", "-c", "notes", "pangolin", "--mode", "lexical")["hits"]] == [
        "pangolin.txt"
    ]


def test_a_taken_port_is_named_before_anything_is_started(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = home.run("up", ANCHORAGE_HTTP__PORT=str(port))

    assert done.returncode == 2
    assert str(port) in done.stderr
    assert done.stderr.endswith("(port_taken)\n")
    assert not (home.data / "postgres").exists()


@pytest.mark.parametrize("arguments", [("up",), ("up", "--detach"), ("check-config",)])
def test_a_data_folder_that_cannot_be_one_is_named(home: Home, arguments: tuple[str, ...]) -> None:
    file = home.folder / "file"
    file.write_text("", encoding="utf-8")

    done = home.run("--data-dir", str(file), *arguments)

    assert done.returncode == 2
    assert "data_folder_unwritable" in done.stderr + done.stdout
    assert file.read_text(encoding="utf-8") == ""


def test_waiting_for_a_vllm_that_cannot_run_ends_early_and_says_why(home: Home) -> None:
    broken = home.folder / "python"
    broken.write_text("#!/bin/sh\necho 'no module named vllm' >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    (home.folder / "config.json").write_text("{}", encoding="utf-8")
    settings = {
        "ANCHORAGE_GENERATION__MANAGED": "true",
        "ANCHORAGE_GENERATION__MODEL": str(home.folder),
        "ANCHORAGE_GENERATION__VLLM_PYTHON": str(broken),
        "ANCHORAGE_GENERATION__VLLM_PORT": "0",
    }

    started = home.run("up", "--detach", "--wait", "generation", **settings)
    again = home.run("up", "--detach", "--wait", "generation", **settings)

    for done in (started, again):
        assert done.returncode == 3, done.stderr
        assert f"process {home.owner['pid']}, API {home.url}" in done.stdout
        assert "generation is not to be had (vllm keeps ending; see " in done.stderr
        assert done.stderr.endswith("until then answers are extractive\n")


def test_two_starts_in_the_background_at_once_become_one_service(home: Home) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: home.run("up", "--detach"), range(2)))

    assert [done.returncode for done in both] == [0, 0], [done.stderr for done in both]
    assert all(f"process {home.owner['pid']}, API {home.url}" in done.stdout for done in both)


def test_a_configuration_that_the_service_cannot_use_ends_the_start(home: Home) -> None:
    done = home.run("up", ANCHORAGE_STORE__KIND="nonsense")

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("(unknown_store)")
    assert not Path(home.data / "run" / "service.json").exists()


@pytest.mark.parametrize("command", ["up", "serve", "worker", "check-config"])
def test_a_model_that_cannot_be_had_is_named_with_those_that_are_known(home: Home, command: str) -> None:
    done = home.run(command, ANCHORAGE_EMBEDDING__MODEL="nonexist")

    assert done.returncode == 2
    assert "no model is called 'nonexist'; known models: multilingual-e5-small" in done.stderr + done.stdout
    assert not Path(home.data / "run" / "service.json").exists()


def test_a_setting_that_does_not_exist_is_named_with_the_nearest_one(home: Home) -> None:
    done = home.run("check-config", ANCHORAGE_PORT="9000")

    assert done.returncode == 2
    assert "did you mean ANCHORAGE_HTTP__PORT?" in done.stderr


def test_a_setting_of_the_wrong_type_is_named_by_its_variable(home: Home) -> None:
    done = home.run("up", ANCHORAGE_HTTP__PORT="many")

    assert done.returncode == 2
    assert "ANCHORAGE_HTTP__PORT" in done.stderr
