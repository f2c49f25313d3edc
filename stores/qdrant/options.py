"""The options of the Qdrant store: which engine, where it is, and how it is used.

- a server: ``url``, and ``api_key, prefer_grpc, grpc_port``;
- the client's local mode, which scans: ``location = ":memory:"``, or ``path`` with ``local = true``;
- the embedded engine: ``path`` of its folder, or ``socket`` of a host process that already runs.

Of all: ``timeout`` (seconds a call may take), ``pool_size`` (connections), ``indexing_threshold`` (rows without
an index from which one is built).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.core.errors import ConfigurationError

_SERVER = {"url", "api_key", "prefer_grpc", "grpc_port"}
_LOCAL = {"location", "path", "local"}
_EMBEDDED = {"path", "socket"}
_COMMON = {"timeout", "pool_size", "indexing_threshold"}
_MEMORY = ":memory:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """A server at ``url``, or the local mode in the folder ``path``, or in memory when both are ``None``."""

    url: str | None = None
    api_key: str | None = None
    prefer_grpc: bool = True
    grpc_port: int = 6334
    path: str | None = None
    timeout: float = 10.0
    pool_size: int = 4
    indexing_threshold: int = 10_000

    @property
    def local(self) -> bool:
        """Whether there is no server."""
        return self.url is None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedOptions:
    """The embedded engine over ``folder``, in a process of its own; or the one that listens on ``socket``."""

    folder: Path | None = None
    socket: Path | None = None
    timeout: float = 10.0
    pool_size: int = 4
    indexing_threshold: int = 10_000


def read_options(options: Mapping[str, Any]) -> ClientOptions | EmbeddedOptions:
    """Check ``options``; raises ``ConfigurationError`` naming what is unknown, missing or out of range."""
    _check_types(options)
    common: dict[str, Any] = {name: options[name] for name in sorted(_COMMON & set(options))}
    if "timeout" in common:
        common["timeout"] = float(common["timeout"])
    if "url" in options:
        _only(options, _SERVER, "a server")
        return ClientOptions(**{name: options[name] for name in sorted(_SERVER & set(options))}, **common)
    if "location" in options or options.get("local"):
        _only(options, _LOCAL, "the local mode")
        _require(("location" in options) is not ("path" in options), "the local mode takes a location or a path")
        return ClientOptions(path=options.get("path"), **common)
    _only(options, _EMBEDDED | {"local"}, "the embedded engine")
    _require(("path" in options) is not ("socket" in options), "url, location, path or socket is missing")
    return EmbeddedOptions(folder=_path(options, "path"), socket=_path(options, "socket"), **common)


def engine_packages(options: Mapping[str, Any]) -> Sequence[str]:
    """The modules that an engine of our own needs, and a server or a running host process does not."""
    read = read_options(options)
    return ("qdrant_edge",) if isinstance(read, EmbeddedOptions) and read.folder is not None else ()


def _check_types(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        _require(name in _CHECKS, f"unknown option {name}; there is {', '.join(sorted(_CHECKS))}")
        expected, holds = _CHECKS[name]
        _require(holds(value), f"{name} is {expected}")


def _only(options: Mapping[str, Any], own: set[str], engine: str) -> None:
    foreign = sorted(set(options) - own - _COMMON)
    _require(not foreign, f"{', '.join(foreign)} is no option of {engine}")


def _path(options: Mapping[str, Any], name: str) -> Path | None:
    return Path(options[name]) if name in options else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10_000_000


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 3600


_FLAG = ("true or false", lambda value: isinstance(value, bool))
_FOLDER = ("the path of a folder", lambda value: _is_text(str(value)))
_CHECKS: Mapping[str, tuple[str, Any]] = {
    "url": ("the http or https address of a Qdrant server", _is_address),
    "api_key": ("a text", _is_text),
    "prefer_grpc": _FLAG,
    "grpc_port": ("the number of a port", lambda value: _is_count(value) and value < 65_536),
    "location": (f"{_MEMORY}", lambda value: value == _MEMORY),
    "path": _FOLDER,
    "local": _FLAG,
    "socket": ("the path of a unix socket", lambda value: _is_text(str(value))),
    "timeout": ("a number of seconds above 0", _is_seconds),
    "pool_size": ("between 1 and 1000", lambda value: _is_count(value) and value <= 1000),
    "indexing_threshold": ("a number of rows of at least 1", _is_count),
}


def _require(condition: bool, message: str) -> None:  # noqa: FBT001  reads as an assertion
    if not condition:
        raise ConfigurationError(f"qdrant store: {message}")
