"""Each of the three ways takes the network from a process, and the two of the kernel from what it starts too."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

NAMESPACE = ""
SECCOMP = """
class Refused:
    def __init__(self, *arguments, **named):
        self._library = real(*arguments, **named)
    def __getattr__(self, name):
        return (lambda _: -1) if name == "unshare" else getattr(self._library, name)
real, ctypes.CDLL = ctypes.CDLL, Refused
"""
HOOK = "sys.platform = 'other'"
"""What is done before, so that the better ways are not there."""

SCRIPT = """
import ctypes, json, socket, subprocess, sys
from ingest.parsing import network
{before}
way = network.leave_network()
address = ("127.0.0.1", {port})

def tried(work):
    try:
        work()
    except OSError as error:
        return type(error).__name__
    return "reached"

def started():
    code = f"import socket; socket.create_connection({{address!r}}, 5)"
    if subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode:
        raise OSError("refused")

print(json.dumps({{
    "way": way,
    "tcp": tried(lambda: socket.create_connection(address, 5)),
    "udp": tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", address)),
    "ipv6": tried(lambda: socket.create_connection(("::1", address[1]), 5)),
    "name": tried(lambda: socket.getaddrinfo("localhost.example", 80)),
    "started": tried(started),
    "local": tried(lambda: socket.socketpair(socket.AF_UNIX)),
}}))
"""


@pytest.fixture
def port() -> Iterator[int]:
    """A port that something listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def tried(before: str, port: int) -> dict[str, Any]:
    """What a process reached after it left the network."""
    script = SCRIPT.format(before=before, port=port)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_port_is_reached_by_a_process_that_has_the_network(port: int) -> None:
    kept = tried("network.leave_network = lambda: 'none'", port)

    assert (kept["tcp"], kept["udp"], kept["started"]) == ("reached", "reached", "reached")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces and seccomp are the Linux kernel's")
@pytest.mark.parametrize(("before", "way"), [(NAMESPACE, "namespace"), (SECCOMP, "seccomp")])
def test_the_kernel_refuses_every_socket_but_local_ones(before: str, way: str, port: int) -> None:
    found = tried(before, port)

    if found["way"] != way:
        pytest.skip(f"this system does not allow a {way}: {found['way']} is taken instead")
    assert found.pop("way") == way
    assert found.pop("local") == "reached"
    assert "reached" not in found.values(), found


def test_the_interpreter_refuses_where_the_kernel_cannot(port: int) -> None:
    found = tried(HOOK, port)

    assert (found["way"], found["local"]) == ("hook", "reached")
    assert {found[each] for each in ("tcp", "udp", "ipv6", "name")} == {"PermissionError"}
