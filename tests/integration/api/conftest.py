"""Fixtures of a service with a real embedded Postgres, a hash embedder and a scripted generator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from rag.blobs import open_blobs
from rag.catalog import open_catalog
from rag.catalog.embedded import open_embedded_postgres
from rag.embedding import HashEmbedder
from rag.query import QueryPipeline
from rag.services import Services
from rag.testing import FakeGenerator
from stores.registry import open_store
from tests.integration.api.running import Running, run

Start = Callable[..., Awaitable[Running]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The URL of an embedded Postgres that all tests of this folder share."""
    async with open_embedded_postgres(tmp_path_factory.mktemp("pg")) as server:
        yield server.url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def services(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Services]:
    """Parts that all tests of this folder share; each test makes its own collections."""
    folder = tmp_path_factory.mktemp("blobs")
    async with (
        open_catalog(postgres, pool_size=6, timeout=5.0) as catalog,
        open_blobs(folder) as blobs,
        open_store("memory", {}) as store,
    ):
        embedder, generator = HashEmbedder(64), FakeGenerator()
        pipeline = QueryPipeline(catalog, store, embedder, None, generator)
        yield Services(
            catalog=catalog, blobs=blobs, store=store, embedder=embedder, pipeline=pipeline, generator=generator
        )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running(services: Services) -> AsyncIterator[Running]:
    async with run(services) as running:
        yield running


@pytest.fixture(autouse=True)
def generator(services: Services) -> FakeGenerator:
    """The generator with its script from the start."""
    generator = services.generator
    assert isinstance(generator, FakeGenerator)
    FakeGenerator.__init__(generator, ["Water boils at 100 degrees", " [1]", "."])
    return generator


@pytest.fixture
def service(running: Running, generator: FakeGenerator) -> Running:
    """A running service; the tests that stop one start their own."""
    return running


@pytest_asyncio.fixture(loop_scope="session")
async def start(services: Services) -> AsyncIterator[Start]:
    """Starts a service of its own over the shared parts, with other limits."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> Running:
            return await stack.enter_async_context(run(services, **options))

        yield start
