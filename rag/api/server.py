"""Serving an application: on a port or a Unix socket, with a bounded drain, inside a loop that others share."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import math
import os
import socket
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from rag.api.shutdown import Shutdown
from rag.core.errors import ConfigurationError, DataFolderError, DataFolderLockedError, PortTakenError

LONGEST_SOCKET_PATH = 107
"""Bytes that the kernel allows in the path of a Unix socket."""

_CANCEL_AFTER_CLOSE_SECONDS = 2
_KEEP_ALIVE_SECONDS = 30
_CONNECT_SECONDS = 1.0
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  read, not bound


def bind_port(host: str, port: int) -> socket.socket:
    """Take a TCP port; 0 takes any free one. Raises ``PortTakenError``, or ``ConfigurationError`` for the address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigurationError(f"{host!r} is not an address of this machine: {error.strerror}") from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(f"port {port} of {host} is taken: choose another with ANCHORAGE_HTTP__PORT") from None
        raise ConfigurationError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return listener


def bind_socket(path: Path) -> socket.socket:
    """Take a Unix socket that only this account can use, over one that a killed process left behind.

    Raises ``DataFolderLockedError`` when a live process answers there, ``DataFolderError`` when it cannot be made.
    """
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise DataFolderError(
            f"{path} is too long for a socket ({LONGEST_SOCKET_PATH} bytes): use a shorter data folder"
        )
    _clear_leftover(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen()
    except OSError as error:
        listener.close()
        raise DataFolderError(f"cannot make the socket {path}: {error.strerror}") from error
    return listener


def _clear_leftover(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except OSError:
            path.unlink(missing_ok=True)
        else:
            raise DataFolderLockedError(f"another service already runs on {path.parent.parent}")


def address_of(listener: socket.socket) -> str:
    """The URL under which clients of this machine reach ``listener``."""
    host, port = listener.getsockname()[:2]
    host = _WILDCARDS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def published_address(file: Path, url: str) -> Iterator[None]:
    """Say in ``file`` where the service is while the ``with`` body runs. Raises ``DataFolderError``."""
    content = {"pid": os.getpid(), "url": url, "started_at": datetime.now(UTC).isoformat()}
    temporary = file.with_suffix(".tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(file)
    except OSError as error:
        raise DataFolderError(f"{file} cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


class _Server(uvicorn.Server):
    """Leaves signals to whoever owns the loop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def serve_app(
    app: ASGIApp,
    listener: socket.socket,
    *,
    stop: asyncio.Event,
    drain_timeout: float,
    end_requests: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve ``app`` on ``listener`` until ``stop`` is set and its requests have ended; closes ``listener``.

    ``end_requests`` runs from the stop on, and is cancelled when all
    requests have ended; what still runs two seconds after ``drain_timeout`` seconds is cancelled.
    """
    server = _Server(_config(app, drain_timeout))
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(_stop(server, stop, end_requests), name="stop watch")
        await server.serve(sockets=[listener])
        watch.cancel()


def _config(app: ASGIApp, drain_timeout: float) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="auto",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(drain_timeout) + _CANCEL_AFTER_CLOSE_SECONDS,
    )


async def _stop(
    server: uvicorn.Server, stop: asyncio.Event, end_requests: Callable[[], Awaitable[None]] | None
) -> None:
    await stop.wait()
    server.should_exit = True
    if end_requests is not None:
        await end_requests()


def request_ender(app: Any, drain_timeout: float) -> Callable[[], Awaitable[None]]:
    """What ends the requests of an application of ``create_app``: with an error, ``drain_timeout`` seconds later."""

    async def end_requests() -> None:
        shutdown: Shutdown | None = getattr(app.state, "shutdown", None)
        if shutdown is None:
            return
        shutdown.drain()
        await asyncio.sleep(drain_timeout)
        shutdown.close()

    return end_requests
