"""The options of the pgvector store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from rag.core.errors import ConfigurationError

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``url`` of the database, connections kept, seconds a call may take, and the Postgres schema all lives in."""

    url: str
    pool_size: int
    timeout: float
    schema: str


def read_options(options: Mapping[str, Any]) -> Options:
    """Check ``options``; raises ``ConfigurationError`` naming what is unknown, missing or out of range."""
    known = {each.name for each in fields(Options)}
    unknown = sorted(set(options) - known)
    _require(not unknown, f"unknown option {', '.join(unknown)}; there is {', '.join(sorted(known))}")
    _require("url" in options, "url is missing")
    url, schema = options["url"], options.get("schema", "anchorage_vectors")
    pool_size, timeout = options.get("pool_size", 8), options.get("timeout", 10.0)
    _require(isinstance(url, str) and bool(url), "url is the address of a PostgreSQL database")
    _require(isinstance(pool_size, int) and 1 <= pool_size <= 1000, "pool_size is between 1 and 1000")
    _require(isinstance(timeout, int | float) and 0 < timeout <= 3600, "timeout is a number of seconds, at most 3600")
    _require(isinstance(schema, str) and _SCHEMA.fullmatch(schema) is not None, "schema is a lower-case name")
    return Options(url=url, pool_size=pool_size, timeout=float(timeout), schema=schema)


def _require(condition: bool, message: str) -> None:  # noqa: FBT001  reads as an assertion
    if not condition:
        raise ConfigurationError(f"pgvector store: {message}")
