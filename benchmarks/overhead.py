"""What the service adds over its own SQL: `/search` on loopback against the bare query by psycopg.

Both sides ask the nearest ten to the same vector of the same table with the same tenant filter, under the
session settings of the store (``stores.pgvector.database.SESSION``: 200 candidates in HNSW, plans made for the
values at hand, no compilation, no parallel workers), over one open connection, rows in binary, statements
prepared. They take turns at concurrency 1, and at being first. The time of ``/search`` runs from the request's
first byte to the answer's last one; reading its JSON is not part of it, as little as making the vector is part of
the bare query. The embedder takes constant time and reranking is off, so what remains is the service.
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
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click
import numpy as np
import psycopg
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb

from benchmarks.countdown import Countdown
from benchmarks.loopback import LoopbackClient, open_client
from benchmarks.metrics import percentile
from benchmarks.report import Bar, Report
from benchmarks.wire import counting_proxy
from rag.catalog import Catalog, open_catalog
from rag.catalog.embedded import open_embedded_postgres
from rag.core.catalog import Attempt, BlobRef, Publication
from rag.core.errors import ConfigurationError
from rag.core.ports import Embedder, VectorStore
from rag.core.records import CollectionSpec, Metric, RecordBatch, record_id
from rag.core.types import Quality, Scope
from rag.embedding.hashing import HashEmbedder
from rag.lexical import TermCounts, count_terms, document_weights
from stores.pgvector.database import SESSION, SET_SESSION
from stores.registry import open_store

DIMENSION = 384
CHUNKS = 100
LIMIT = 10
COLLECTION = "bench"
SCOPE = Scope()
VOCABULARY = 20_000
WORDS = 60
WARM_UP = 20
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
        countdown = Countdown("rows", rows)
        async with _index_made_last(url, view.physical):
            for number in range(rows // CHUNKS):
                await _publish(catalog, store, embedder, number, [_text(words, WORDS) for _ in range(CHUNKS)])
                countdown.show((number + 1) * CHUNKS)
        return view.physical


@asynccontextmanager
async def _index_made_last(url: str, physical: str) -> AsyncIterator[None]:
    """The vector index as the store defines it, made once from all rows instead of row by row."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        found = await connection.execute(
            "SELECT format('%%I.%%I', schemaname, indexname), indexdef FROM pg_indexes "
            "WHERE tablename = %s AND indexdef LIKE '%%USING hnsw%%'",
            [f"r_{physical}"],
        )
        ((name, definition),) = await found.fetchall()
        await connection.execute(f"DROP INDEX {name}".encode())
        yield
        async with asyncio.TaskGroup() as group:
            build = group.create_task(connection.execute(definition.encode()), name="index build")
            await _show_build(url, build)
        await connection.execute(f'ANALYZE anchorage_vectors."r_{physical}"'.encode())


async def _show_build(url: str, build: asyncio.Task[Any]) -> None:
    countdown = Countdown("percent of the vector index", 100)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while not (await asyncio.wait({build}, timeout=1.0))[0]:
            found = await connection.execute(
                "SELECT 100 * blocks_done / blocks_total FROM pg_stat_progress_create_index WHERE blocks_total > 0"
            )
            for (percent,) in await found.fetchall():
                countdown.show(max(1, percent))
    countdown.show(100)


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
    batch = await _batch(embedder, attempt, texts, counts)
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


async def _batch(
    embedder: Embedder, attempt: Attempt, texts: Sequence[str], counts: Sequence[TermCounts]
) -> RecordBatch:
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
        terms=[document_weights(each, average_length=WORDS) for each in counts],
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
        if process.returncode is None:
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
    """Milliseconds of each search over HTTP and of the bare query, taken in turn; the first ones not counted."""
    embedder = HashEmbedder(DIMENSION)
    searches: list[float] = []
    bare: list[float] = []
    countdown = Countdown("pairs", len(queries) + WARM_UP)
    with open_client(url) as client, psycopg.connect(postgres, autocommit=True) as connection:
        register_vector(connection)
        connection.execute(SET_SESSION, [Jsonb(dict(SESSION))])
        for number, query in enumerate([*queries[:WARM_UP], *queries]):
            vector = (await embedder.embed([query], kind="query"))[0]
            if number % 2:
                searches.append(_timed_search(client, query, "dense"))
            bare.append(_timed_query(connection, table, vector))
            if not number % 2:
                searches.append(_timed_search(client, query, "dense"))
            countdown.show(number + 1)
    return searches[WARM_UP:], bare[WARM_UP:]


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


def _timed_search(client: LoopbackClient, query: str, mode: str) -> float:
    body = json.dumps({"query": query, "limit": LIMIT, "mode": mode, "rerank": False}).encode()
    started = time.perf_counter()
    status, content = client.post(f"/v1/collections/{COLLECTION}/search", body)
    elapsed = (time.perf_counter() - started) * 1000
    if status != HTTPStatus.OK or len(json.loads(content)["hits"]) != LIMIT:
        raise ConfigurationError(f"a search gave {status} and not {LIMIT} hits: {content[:200]!r}")
    return elapsed


async def round_trips(folder: Path, postgres: str, queries: Sequence[str], mode: str) -> float:
    """Waits on Postgres of the median search, read off the wire.

    Every query runs before it counts, for a statement that a connection has not prepared takes one wait more.
    """
    upstream = Path(psycopg.conninfo.conninfo_to_dict(postgres)["host"]) / ".s.PGSQL.5432"  # type: ignore[arg-type]
    sockets = folder / f"proxy-{mode}"
    sockets.mkdir()
    address = psycopg.conninfo.make_conninfo(postgres, host=str(sockets), port=5432)
    waits: list[int] = []
    countdown = Countdown(f"{mode} searches", 2 * len(queries))
    async with counting_proxy(sockets, upstream) as proxy, service(folder / f"counted-{mode}", address) as url:
        with open_client(url) as client:
            for number, query in enumerate([*queries, *queries]):
                before = proxy.round_trips
                # The proxy lives in this loop, so whoever waits for an answer waits in a thread.
                await asyncio.to_thread(_timed_search, client, query, mode)
                waits.append(proxy.round_trips - before)
                countdown.show(number + 1)
    return percentile(waits[len(queries) :], 0.5)


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
        parameters={"rows": load.rows, "pairs": load.pairs, "dimension": DIMENSION, "limit": LIMIT, **SESSION},
    )


def _text(words: random.Random, count: int) -> str:
    return " ".join(f"w{min(int(words.paretovariate(0.6)), VOCABULARY)}" for _ in range(count))
