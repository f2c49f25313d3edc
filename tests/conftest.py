"""Fixtures every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A shared machine stalls: how long an example takes says nothing about it.
settings.register_profile("anchorage", deadline=None)
settings.load_profile("anchorage")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared data and models, named by ``ANCHORAGE_SHARED``; skips where there is none."""
    folder = Path(os.environ.get("ANCHORAGE_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"needs the shared data, and there is none at {folder} (set ANCHORAGE_SHARED)")
    return folder.resolve()
