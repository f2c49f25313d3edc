from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag.core.errors import ConfigurationError
from stores.milvus.options import read_options


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "either uri or path"),
        ({"uri": "http://a:1", "path": "x"}, "either uri or path"),
        ({"uri": "a:1"}, "uri is an address"),
        ({"uri": "unix:/x"}, "uri is an address"),
        ({"uri": "http://a:99999"}, "uri is an address"),
        ({"uri": 7}, "uri is an address"),
        ({"path": ""}, "path is a folder"),
        ({"path": 7}, "path is a folder"),
        ({"uri": "http://a:1", "secret": "x"}, "unknown option secret"),
        ({"uri": "http://a:1", "token": None}, "token and database"),
        ({"uri": "http://a:1", "timeout": 0}, "timeout"),
        ({"uri": "http://a:1", "timeout": True}, "timeout"),
        ({"uri": "http://a:1", "timeout": float("inf")}, "timeout"),
        ({"uri": "http://a:1", "connections": 0}, "connections"),
        ({"uri": "http://a:1", "partitions": 1025}, "partitions"),
        ({"uri": "http://a:1", "replicas": 1.5}, "replicas"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        read_options(options)


def test_what_is_left_out_has_its_default() -> None:
    server, lite = read_options({"uri": "https://host:19530"}), read_options({"path": "data/milvus"})

    assert (server.timeout, server.connections, server.partitions, server.replicas) == (10.0, 8, 16, 1)
    assert (lite.uri, lite.path) == (None, Path("data/milvus"))
