"""An HTTP client that costs next to nothing, so that what is timed is the service."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

_PIECE = 1 << 16
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"


class LoopbackClient:
    """Posts JSON over one kept connection: a request is one segment, a response is read by its length."""

    def __init__(self, connection: socket.socket, host: str) -> None:
        self._connection = connection
        self._host = host

    def post(self, route: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises ``OSError`` when the service closes the connection."""
        head = (
            f"POST {route} HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._connection.sendall(head.encode() + body)
        received = self._receive()
        while (end := received.find(_END_OF_HEAD)) < 0:
            received += self._receive()
        begins = end + len(_END_OF_HEAD)
        size = begins + _content_length(received[:end])
        while len(received) < size:
            received += self._receive()
        return int(received[9:12]), received[begins:]

    def _receive(self) -> bytes:
        piece = self._connection.recv(_PIECE)
        if not piece:
            raise ConnectionError("the service closed the connection")
        return piece


def _content_length(head: bytes) -> int:
    lines = (line for line in head.lower().split(b"\r\n") if line.startswith(_LENGTH))
    return int(next(lines)[len(_LENGTH) :])


@contextmanager
def open_client(url: str, *, timeout: float = 30.0) -> Iterator[LoopbackClient]:
    """A client of the service at ``url``; ``timeout`` seconds are given to each read."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=timeout) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield LoopbackClient(connection, parts.netloc)
