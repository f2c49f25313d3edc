"""The options of the milvus store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rag.core.errors import ConfigurationError

_SCHEMES = ("http", "https", "tcp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Either the ``uri`` of a server, or the ``path`` of the folder that Milvus Lite keeps.

    ``timeout``: seconds for one request to the server; ``connections``: requests on their way at once;
    ``partitions``: how many the tenants of a new collection are hashed to, where the server does that soundly;
    ``replicas``: copies of a collection that answer reads.
    """

    uri: str | None = None
    path: Path | None = None
    token: str = ""
    database: str = ""
    timeout: float = 10.0
    connections: int = 8
    partitions: int = 16
    replicas: int = 1


def read_options(options: Mapping[str, Any]) -> Options:
    """Check ``options``; raises ``ConfigurationError`` naming what is unknown, missing or out of range."""
    known = {each.name for each in fields(Options)}
    unknown = sorted(set(options) - known)
    _require(not unknown, f"unknown option {', '.join(unknown)}; there is {', '.join(sorted(known))}")
    _require(("uri" in options) != ("path" in options), "either uri or path is needed")
    read = Options(**{**options, **({"path": _path(options["path"])} if "path" in options else {})})
    _require(read.uri is None or _is_address(read.uri), "uri is an address such as http://host:19530")
    _require(all(isinstance(each, str) for each in (read.token, read.database)), "token and database are texts")
    _require(_is_number(read.timeout) and 0 < read.timeout <= 3600, "timeout is a number of seconds, at most 3600")
    _require(_within(read.connections, 1, 1000), "connections is between 1 and 1000")
    _require(_within(read.partitions, 1, 1024), "partitions is between 1 and 1024")
    _require(_within(read.replicas, 1, 64), "replicas is between 1 and 64")
    return read


def engine_packages(options: Mapping[str, Any]) -> Sequence[str]:
    """The modules that Milvus Lite needs, and a server does not."""
    return ("milvus_lite",) if read_options(options).path is not None else ()


def _path(value: object) -> Path:
    _require(isinstance(value, str | Path) and str(value) != "", "path is a folder")
    return Path(str(value)).expanduser()


def _is_address(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port is not False
    except ValueError:
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _within(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _require(condition: bool, message: str) -> None:  # noqa: FBT001  reads as an assertion
    if not condition:
        raise ConfigurationError(f"milvus store: {message}")
