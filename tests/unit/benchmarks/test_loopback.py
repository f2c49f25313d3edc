"""The benchmark's own HTTP client reads what the service says, however it is cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

import pytest

from benchmarks.loopback import LoopbackClient


def answering(pieces: Sequence[bytes]) -> tuple[LoopbackClient, list[bytes], threading.Thread]:
    ours, theirs = socket.socketpair()
    asked: list[bytes] = []

    def serve() -> None:
        with theirs:
            asked.append(theirs.recv(65536))
            for piece in pieces:
                theirs.sendall(piece)

    thread = threading.Thread(target=serve)
    thread.start()
    return LoopbackClient(ours, "service:1"), asked, thread


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntext"],
        [b"HTTP/1.1 200 OK\r\ncontent-len", b"gth: 4\r\n\r", b"\nte", b"xt"],
    ],
)
def test_an_answer_is_read_whole(pieces: list[bytes]) -> None:
    client, asked, thread = answering(pieces)

    answer = client.post("/v1/search", b"{}")

    thread.join()
    assert answer == (200, b"text")
    assert asked == [
        b"POST /v1/search HTTP/1.1\r\nHost: service:1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    ]


def test_a_closed_connection_is_an_error() -> None:
    client, _, thread = answering([b"HTTP/1.1 200 OK\r\n"])

    with pytest.raises(ConnectionError):
        client.post("/", b"")

    thread.join()
