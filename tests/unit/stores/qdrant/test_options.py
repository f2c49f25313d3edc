"""The options of the Qdrant store are checked in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag.core.errors import ConfigurationError
from stores.qdrant.options import ClientOptions, EmbeddedOptions, read_options


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"url": "http://qdrant:6333", "api_key": "k", "pool_size": 8, "timeout": 3},
            ClientOptions(url="http://qdrant:6333", api_key="k", pool_size=8, timeout=3.0),
        ),
        ({"location": ":memory:"}, ClientOptions()),
        ({"path": "/data", "local": True}, ClientOptions(path="/data")),
        ({"path": "/data"}, EmbeddedOptions(folder=Path("/data"))),
        ({"path": Path("/data"), "local": False}, EmbeddedOptions(folder=Path("/data"))),
        ({"socket": "/run/s", "indexing_threshold": 5}, EmbeddedOptions(socket=Path("/run/s"), indexing_threshold=5)),
    ],
    ids=str,
)
def test_the_options_choose_the_engine(options: dict[str, Any], expected: object) -> None:
    assert read_options(options) == expected


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "url, location, path or socket"),
        ({"url": "http://q", "colour": 1}, "colour"),
        ({"url": "http://q", "path": "/data"}, "path"),
        ({"url": "qdrant:6333"}, "url"),
        ({"url": ""}, "url"),
        ({"location": "elsewhere"}, "location"),
        ({"location": ":memory:", "path": "/data"}, "location or a path"),
        ({"local": True}, "location or a path"),
        ({"path": "/data", "socket": "/run/s"}, "socket"),
        ({"path": "/data", "api_key": "k"}, "api_key"),
        ({"path": ""}, "path"),
        ({"path": "/data", "timeout": 0}, "timeout"),
        ({"path": "/data", "timeout": "soon"}, "timeout"),
        ({"path": "/data", "pool_size": True}, "pool_size"),
        ({"url": "http://q", "grpc_port": 70_000}, "grpc_port"),
        ({"path": "/data", "indexing_threshold": 0}, "indexing_threshold"),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_used_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        read_options(options)
