"""Addresses to listen on: free or taken, and how a client on this machine reaches them."""

from __future__ import annotations

import errno
import socket

from rag.core.errors import ConfigurationError, PortTakenError

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  compared, not bound


def require_free(host: str, port: int) -> int:
    """Return ``port`` when it can be listened on, or a free one for 0.

    Raises ``PortTakenError`` when something listens there, ``ConfigurationError`` when the host is not ours.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(
                f"port {port} of {host} is already taken; choose another one, as with ANCHORAGE_HTTP__PORT={port + 1}"
            ) from error
        raise ConfigurationError(f"cannot listen on {host}:{port}: {error.strerror}") from error


def base_url(host: str, port: int) -> str:
    """Return the URL under which a client on this machine reaches a server that listens there."""
    reachable = _EVERYWHERE.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"
