from __future__ import annotations

from typing import Any

import pytest

from rag.core.errors import ConfigurationError
from stores.pgvector.options import read_options

URL = "postgresql://localhost/db"


def test_only_the_address_is_needed() -> None:
    options = read_options({"url": URL})

    assert (options.url, options.schema) == (URL, "anchorage_vectors")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "url"),
        ({"url": ""}, "url"),
        ({"url": URL, "size": 3}, "size"),
        ({"url": URL, "pool_size": 0}, "pool_size"),
        ({"url": URL, "timeout": 0}, "timeout"),
        ({"url": URL, "timeout": float("inf")}, "timeout"),
        ({"url": URL, "schema": 'a"; drop schema public'}, "schema"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        read_options(given)
