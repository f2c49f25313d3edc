"""Ports, sockets and the file that says where the service is."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from rag.api.server import address_of, bind_port, bind_socket, published_address
from rag.core.errors import ConfigurationError, DataFolderError, DataFolderLockedError, PortTakenError


def test_a_taken_port_is_one_clear_error() -> None:
    with bind_port("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(PortTakenError, match=str(port)):
            bind_port("127.0.0.1", port)


def test_an_address_of_another_machine_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError):
        bind_port("192.0.2.1", 0)


def test_port_zero_takes_a_free_port_and_the_address_names_it() -> None:
    with bind_port("127.0.0.1", 0) as listener:
        address = address_of(listener)

    assert address.startswith("http://127.0.0.1:")
    assert not address.endswith(":0")


def test_a_service_on_every_address_is_reached_on_this_machine() -> None:
    with bind_port("0.0.0.0", 0) as listener:
        assert address_of(listener).startswith("http://127.0.0.1:")


def test_a_socket_is_private_and_replaces_a_dead_one(tmp_path: Path) -> None:
    path = tmp_path / "run" / "m.sock"
    bind_socket(path).close()

    with bind_socket(path) as listener:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.fspath(path))
        assert listener.fileno() >= 0


def test_a_socket_that_answers_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "m.sock"

    with bind_socket(path), pytest.raises(DataFolderLockedError):
        bind_socket(path)


def test_a_path_too_long_for_a_socket_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataFolderError, match="too long"):
        bind_socket(tmp_path / ("x" * 120) / "m.sock")


def test_the_address_stands_in_the_file_while_the_service_runs(tmp_path: Path) -> None:
    file = tmp_path / "run" / "service.json"

    with published_address(file, "http://127.0.0.1:1"):
        content = json.loads(file.read_text(encoding="utf-8"))

    assert (content["pid"], content["url"]) == (os.getpid(), "http://127.0.0.1:1")
    assert not file.exists()
