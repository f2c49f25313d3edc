"""The service as a process of its own, wired from settings: start, work, end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag.api.server import bind_port
from rag.core.types import Priority
from rag.embedding import open_remote_embedder
from rag.settings import load_settings
from rag.wiring import socket_of_models

pytestmark = pytest.mark.asyncio(loop_scope="session")

MAIN = """
import sys
from rag.core.errors import AnchorageError
from rag.settings import load_settings
from rag.wiring import run_service
try:
    run_service(load_settings())
except AnchorageError as error:
    sys.exit(f"{error.code}: {error.message}")
"""


@asynccontextmanager
async def process(postgres: str, data_dir: Path, **variables: str) -> AsyncIterator[Process]:
    environment = {
        **os.environ,
        "ANCHORAGE_DATA_DIR": str(data_dir),
        "ANCHORAGE_CATALOG__URL": postgres,
        "ANCHORAGE_HTTP__PORT": "0",
        "ANCHORAGE_EMBEDDING__MODEL": "hash-64",
        "ANCHORAGE_RERANK__ENABLED": "false",
        "ANCHORAGE_GENERATION__MANAGED": "false",
        **variables,
    }
    started = await asyncio.create_subprocess_exec(sys.executable, "-c", MAIN, env=environment, stderr=PIPE)
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()


async def address(started: Process, data_dir: Path) -> dict[str, Any]:
    """What the service says in its file, once it says it."""
    file = data_dir / "run" / "service.json"
    async with asyncio.timeout(60):
        while started.returncode is None:
            if file.exists():
                written: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
                return written
            await asyncio.sleep(0.05)
    assert started.stderr is not None
    pytest.fail((await started.stderr.read()).decode())


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "d"


async def test_a_service_serves_over_pgvector_and_ends_cleanly_when_told(postgres: str, data_dir: Path) -> None:
    async with process(postgres, data_dir) as started:
        written = await address(started, data_dir)
        async with httpx.AsyncClient(base_url=written["url"], timeout=20, trust_env=False) as http:
            ready = (await http.get("/readyz")).json()
            created = await http.post("/v1/collections", json={"name": "process", "fields": {"year": "integer"}})
            found = await http.post("/v1/collections/process/search", json={"query": "anything"})
            answer = await http.post("/v1/collections/process/answer", json={"query": "anything"})
        started.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            code = await started.wait()

    assert written["pid"] == started.pid
    assert ready["status"] == "ready"
    assert ready["dependencies"]["generation"]["status"] == "skipped"
    assert (created.status_code, found.json()["hits"], answer.status_code) == (201, [], 200)
    assert code == 0
    assert not (data_dir / "run" / "service.json").exists()
    assert not (data_dir / "run" / "models.sock").exists()


async def test_the_worker_embeds_through_the_services_socket(postgres: str, data_dir: Path) -> None:
    settings = load_settings(data_dir=data_dir)
    async with process(postgres, data_dir) as started:
        await address(started, data_dir)
        async with open_remote_embedder(
            socket=socket_of_models(settings), model="hash-64", dimension=64, timeout=10
        ) as embedder:
            vectors = await embedder.embed(["one", "二"], kind="document", priority=Priority.BULK)

    assert vectors.shape == (2, 64)


async def test_a_taken_port_ends_the_service_before_it_begins(postgres: str, data_dir: Path) -> None:
    with bind_port("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])

        async with process(postgres, data_dir, ANCHORAGE_HTTP__PORT=port) as started:
            _, errors = await started.communicate()

    assert started.returncode == 1
    assert errors.decode().startswith("port_taken: ")
    assert not (data_dir / "run" / "service.json").exists()


async def test_a_second_service_on_a_data_folder_is_refused(postgres: str, data_dir: Path) -> None:
    async with process(postgres, data_dir) as first:
        await address(first, data_dir)

        async with process(postgres, data_dir) as second:
            _, errors = await second.communicate()

        assert (data_dir / "run" / "service.json").exists()

    assert second.returncode == 1
    assert errors.decode().startswith("data_folder_locked: ")


async def test_an_unknown_store_ends_the_service_with_its_name(postgres: str, data_dir: Path) -> None:
    async with process(postgres, data_dir, ANCHORAGE_STORE__KIND="cardboard") as started:
        _, errors = await started.communicate()

    assert "unknown_store: " in errors.decode()
    assert "cardboard" in errors.decode()
