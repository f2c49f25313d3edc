"""What the service adds over its own SQL: `/search` on loopback against the bare query by psycopg.

Both sides ask the same vector of the same table with the same tenant filter, in interleaved pairs at
concurrency 1. The embedder takes constant time and reranking is off, so what remains is the service.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import httpx
import numpy as np
import psycopg
from pgvector.psycopg import register_vector

from benchmarks.metrics import percentile
from benchmarks.report import Bar, Report
from benchmarks.wire import counting_proxy
from rag.catalog import Catalog, open_catalog
from rag.catalog.embedded import open_embedded_postgres
from rag.core.errors import ConfigurationError
from rag.core.ports import Embedder, VectorStore
from rag.core.types import (
    Attempt,
    BlobRef,
    CollectionSpec,
    Metric,
    Publication,
    Quality,
    RecordBatch,
    Scope,
    record_id,
)
from rag.embedding.hashing import HashEmbedder
from rag.lexical import count_terms, document_weights
from stores.registry import open_store

DIMENSION = 384
CHUNKS = 100
LIMIT = 10
COLLECTION = "bench"
SCOPE = Scope()
VOCABULARY = 20_000
WORDS = 60
START_DEADLINE = 60.0
MAX_ADDED_MS = 3.0
MAX_ROUND_TRIPS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is measured: rows in the table and pairs of queries."""

    rows: int
    pairs: int


async def measure(*, seed: int, quick: bool) -> Report:
    """Fill the store, start the service, measure pairs, then count round trips on the wire."""
    load = Load(rows=10_000, pairs=300) if quick else Load(rows=100_000, pairs=2_000)
    words = random.Random(seed)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="anchorage-bench-")))
        postgres = await stack.enter_async_context(open_embedded_postgres(folder / "data"))
        click.echo(f"filling {load.rows} rows of {DIMENSION} dimensions …", err=True)
        table = await fill(postgres.url, load.rows, words)
        queries = [_text(words, 8) for _ in range(load.pairs)]
        async with service(folder / "measured", postgres.url) as url:
            click.echo(f"measuring {load.pairs} pairs …", err=True)
            searches, bare = await pairs(url, postgres.url, table, queries)
        click.echo("counting round trips …", err=True)
        trips = {mode: await round_trips(folder, postgres.url, queries[:50], mode) for mode in ("dense", "hybrid")}
    return _report(seed, load, searches, bare, trips)


async def fill(url: str, rows: int, words: random.Random) -> str:
    """Publish documents of 100 chunks each, the vectors those of their text; returns the physical collection."""
    embedder = HashEmbedder(DIMENSION)
    async with open_catalog(url) as catalog, open_store("pgvector", {"url": url}) as store:
        spec = CollectionSpec(dimension=DIMENSION, metric=Metric.COSINE)
        view, _ = await catalog.create_collection(SCOPE, COLLECTION, embedding_model=embedder.model, spec=spec)
        await store.create_collection(view.physical, spec)
        for number in range(rows // CHUNKS):
            await _publish(catalog, store, embedder, number, [_text(words, WORDS) for _ in range(CHUNKS)])
            if number % 100 == 99:
                click.echo(f"  {(number + 1) * CHUNKS}/{rows} rows", err=True)
        return view.physical


async def _publish(catalog: Catalog, store: VectorStore, embedder: Embedder, number: int, texts: Sequence[str]) -> None:
    receipt = await catalog.create_document(
        SCOPE,
        COLLECTION,
        source=f"document-{number:05}.txt",
        blob=BlobRef(sha256=f"{number:064x}", size=1),
        media_type="text/plain",
        metadata={},
    )
    attempt = await catalog.claim(SCOPE.tenant, receipt.document.id)
    if attempt is None:
        raise ConfigurationError(f"document {number} could not be claimed")
    counts = [count_terms(text) for text in texts]
    batch = await _batch(embedder, attempt, texts)
    await store.upsert(attempt.collection.physical, SCOPE.as_service(), batch)
    document_counts: dict[int, int] = {}
    for each in counts:
        for term in each.counts:
            document_counts[term] = document_counts.get(term, 0) + 1
    await catalog.publish(
        [
            Publication(
                attempt=attempt,
                chunks=len(texts),
                characters=sum(map(len, texts)),
                quality=Quality.FULL,
                title=None,
                text_blob=None,
                encoding=None,
                parse_attempts=(),
                total_terms=sum(each.length for each in counts),
                document_counts=document_counts,
            )
        ]
    )


async def _batch(embedder: Embedder, attempt: Attempt, texts: Sequence[str]) -> RecordBatch:
    size = len(texts)
    return RecordBatch(
        tenant=SCOPE.tenant,
        ids=[
            record_id(
                tenant=SCOPE.tenant,
                collection=attempt.collection.physical,
                document=attempt.document,
                generation=attempt.generation,
                index=index,
            )
            for index in range(size)
        ],
        vectors=await embedder.embed(texts, kind="document"),
        terms=[document_weights(count_terms(text), average_length=WORDS) for text in texts],
        texts=texts,
        starts=[0] * size,
        ends=[len(text) for text in texts],
        documents=[attempt.document] * size,
        generations=[attempt.generation] * size,
        acls=[()] * size,
        indexes=list(range(size)),
        pages=[None] * size,
        headings=[()] * size,
        qualities=[Quality.FULL] * size,
        metadata=[{}] * size,
    )


@asynccontextmanager
async def service(data_dir: Path, postgres: str) -> AsyncIterator[str]:
    """Run `anchorage serve` as a user would, and give its address."""
    data_dir.mkdir()
    environment = {
        **os.environ,
        "ANCHORAGE_DATA_DIR": str(data_dir),
        "ANCHORAGE_CATALOG__URL": postgres,
        "ANCHORAGE_EMBEDDING__MODEL": f"hash-{DIMENSION}",
        "ANCHORAGE_RERANK__ENABLED": "false",
        "ANCHORAGE_GENERATION__MANAGED": "false",
        "ANCHORAGE_HTTP__PORT": "0",
        "ANCHORAGE_LOG_LEVEL": "WARNING",
    }
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "rag.cli", "serve", env=environment)
    try:
        yield await _address(data_dir / "run" / "service.json", process)
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), START_DEADLINE)


async def _address(file: Path, process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(START_DEADLINE):
        while not file.exists():
            if process.returncode is not None:
                raise ConfigurationError(f"the service ended with {process.returncode} before it answered")
            await asyncio.sleep(0.05)
    return str(json.loads(file.read_text(encoding="utf-8"))["url"])


async def pairs(url: str, postgres: str, table: str, queries: Sequence[str]) -> tuple[list[float], list[float]]:
    """Milliseconds of each search over HTTP and of the bare query, taken in turn."""
    embedder = HashEmbedder(DIMENSION)
    searches: list[float] = []
    bare: list[float] = []
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        with psycopg.connect(postgres, autocommit=True) as connection:
            register_vector(connection)
            connection.execute("SET hnsw.ef_search = 100; SET hnsw.iterative_scan = strict_order")
            for query in [*queries[:20], *queries]:
                vector = (await embedder.embed([query], kind="query"))[0]
                bare.append(_timed_query(connection, table, vector))
                started = time.perf_counter()
                await _search(client, query, "dense")
                searches.append((time.perf_counter() - started) * 1000)
    return searches[20:], bare[20:]


def _timed_query(connection: psycopg.Connection, table: str, vector: np.ndarray) -> float:
    statement = (
        "SELECT id, document, generation, place, body, begins, ends, page, headings, quality, metadata, "
        f'embedding <=> %(vector)s AS distance FROM anchorage_vectors."r_{table}" WHERE tenant = %(tenant)s '
        f"ORDER BY embedding <=> %(vector)s LIMIT {LIMIT}"
    )
    started = time.perf_counter()
    with connection.cursor(binary=True) as cursor:
        cursor.execute(statement.encode(), {"vector": vector, "tenant": SCOPE.tenant}, prepare=True)
        rows = cursor.fetchall()
    elapsed = (time.perf_counter() - started) * 1000
    if len(rows) != LIMIT:
        raise ConfigurationError(f"the bare query gave {len(rows)} rows, not {LIMIT}")
    return elapsed


async def _search(client: httpx.AsyncClient, query: str, mode: str) -> None:
    body = {"query": query, "limit": LIMIT, "mode": mode, "rerank": False}
    response = await client.post(f"/v1/collections/{COLLECTION}/search", json=body)
    response.raise_for_status()
    hits = response.json()["hits"]
    if len(hits) != LIMIT:
        raise ConfigurationError(f"a search gave {len(hits)} hits, not {LIMIT}")


async def round_trips(folder: Path, postgres: str, queries: Sequence[str], mode: str) -> float:
    """Waits on Postgres a search, read off the wire; the first searches, which prepare statements, not counted."""
    upstream = Path(psycopg.conninfo.conninfo_to_dict(postgres)["host"]) / ".s.PGSQL.5432"  # type: ignore[arg-type]
    sockets = folder / f"proxy-{mode}"
    sockets.mkdir()
    address = psycopg.conninfo.make_conninfo(postgres, host=str(sockets), port=5432)
    async with (
        counting_proxy(sockets, upstream) as proxy,
        service(folder / f"counted-{mode}", address) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as client,
    ):
        for query in [*queries, *queries]:
            await _search(client, query, mode)
        before = proxy.round_trips
        for query in queries:
            await _search(client, query, mode)
        return (proxy.round_trips - before) / len(queries)


def _report(seed: int, load: Load, searches: Sequence[float], bare: Sequence[float], trips: dict[str, float]) -> Report:
    added = percentile(searches, 0.5) - percentile(bare, 0.5)
    rows: list[list[str | float | int | None]] = [
        ["/search", percentile(searches, 0.5), percentile(searches, 0.95), percentile(searches, 0.99)],
        ["psycopg", percentile(bare, 0.5), percentile(bare, 0.95), percentile(bare, 0.99)],
    ]
    bars = [
        Bar(name="p50 added over the bare query, ms", value=added, bound=MAX_ADDED_MS, relation="<="),
        *(
            Bar(name=f"SQL round trips of a {mode} search", value=count, bound=MAX_ROUND_TRIPS, relation="<=")
            for mode, count in trips.items()
        ),
    ]
    return Report(
        name="overhead",
        columns=("side", "p50 ms", "p95 ms", "p99 ms"),
        rows=rows,
        bars=bars,
        seed=seed,
        parameters={"rows": load.rows, "pairs": load.pairs, "dimension": DIMENSION, "limit": LIMIT, "ef_search": 100},
    )


def _text(words: random.Random, count: int) -> str:
    return " ".join(f"w{min(int(words.paretovariate(0.6)), VOCABULARY)}" for _ in range(count))
