"""Each store against its engine's own client used by hand (``benchmarks.byhand``), in one run, taking turns.

Both sides write the same rows, with the same columns, indexes and conflict rule, into two collections of one
engine, and return when the rows are found; both read every column of a hit, under the condition of the same scope
and the same filter, with the same effort and consistency. Weighing terms is done beforehand, and shown apart.

An engine that runs in a server is measured by throughput: rows and searches a second, as a share of the client's.
One that is a library is measured by time: what the way to its process and back adds to a call of it in this
process. Milvus Lite is called as its client does, which runs it behind a port of this process.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np

from benchmarks.byhand.client import COLLECTION, FIELD, Client
from benchmarks.countdown import Countdown
from benchmarks.engines import Opened, each_opened
from benchmarks.metrics import percentile
from benchmarks.pairs import Estimate, added, ratio
from benchmarks.report import Bar, Report
from benchmarks.rows import SCOPE, Rows
from benchmarks.texts import Lexicon, zipf_texts
from benchmarks.vectors import PARTS, clustered_vectors
from rag.core.errors import ConfigurationError
from rag.core.filters import Compare
from rag.core.records import CollectionSpec, Feature
from rag.core.types import FieldType, Vector, Vectors

DIMENSION = 256
WORDS, VOCABULARY = 100, 20_000
LIMIT = 10
OURS = "ours"
SPEC = CollectionSpec(dimension=DIMENSION, filterable={FIELD: FieldType.INTEGER})
BELOW = PARTS // 10
"""The filter passes a tenth of the rows."""
WORKERS = 4
INDEXED_FROM = 1000
"""Rows from which an engine that leaves small collections without an index builds one here."""
LEAST_SHARE = 0.70
MOST_ADDED_MS = 0.5
CONDITIONS = (("plain", None, 1), ("filtered", BELOW, 1), (f"plain, {WORKERS} at once", None, WORKERS))
COLUMNS = ("engine", "work", "ours", "by hand", "unit", "ours / by hand", "95 % interval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is measured: pairs of loads of ``batch`` rows, then pairs of ``queries`` searches."""

    loads: int
    batch: int
    searches: int
    queries: int


@dataclass(frozen=True, slots=True)
class Turns:
    """Seconds of each side, pair by pair."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """An engine's store, the same engine by hand, and what both are given."""

    opened: Opened
    client: Client
    load: Load
    rows: Rows
    queries: Vectors
    seed: int

    @property
    def name(self) -> str:
        """The engine's name."""
        return self.opened.engine.name


async def measure(*, seed: int, quick: bool, stores: Sequence[str] = ()) -> Report:
    """Measure every engine that there is a client for."""
    if quick:
        load = Load(loads=10, batch=400, searches=12, queries=20)
    else:
        load = Load(loads=20, batch=1000, searches=40, queries=50)
    notes: list[str] = []
    rows, queries, analysed = _given(load, seed)
    table: list[list[str | float | int | None]] = [["all", "weighing terms", analysed, None, "ms a row", None, None]]
    bars: list[Bar] = []
    options = {"qdrant": {"indexing_threshold": INDEXED_FROM}}
    with tempfile.TemporaryDirectory(prefix="anchorage-bench-", ignore_cleanup_errors=True) as folder:
        async with aclosing(each_opened(stores, Path(folder), notes, **options)) as engines:
            async for opened in engines:
                async with _both(opened, Path(folder)) as client:
                    sides = Sides(opened=opened, client=client, load=load, rows=rows, queries=queries, seed=seed)
                    measured, held = await _measure_engine(sides)
                    table += measured
                    bars += held
    parameters = {"rows": len(rows), "dimension": DIMENSION, "words": WORDS, "limit": LIMIT, "quick": quick}
    return Report(
        name="adapters", columns=COLUMNS, rows=table, bars=bars, seed=seed, parameters=parameters, notes=notes
    )


def _given(load: Load, seed: int) -> tuple[Rows, Vectors, float]:
    """The rows, the queries, and the milliseconds that weighing the terms of a row took."""
    count = load.loads * load.batch
    vectors = clustered_vectors(count, dimension=DIMENSION, queries=load.searches * load.queries, seed=seed)
    texts = zipf_texts(count, words=WORDS, vocabulary=VOCABULARY, seed=seed)
    started = time.perf_counter()
    terms = Lexicon(texts).documents()
    analysed = (time.perf_counter() - started) * 1000 / count
    metadata = [{FIELD: part} for part in vectors.parts.tolist()]
    rows = Rows(vectors=_normalised(vectors.base), metadata=metadata, texts=texts, terms=terms)
    return rows, _normalised(vectors.queries), analysed


def _normalised(vectors: Vectors) -> Vectors:
    """Of length one, as embedders give them."""
    return np.ascontiguousarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


@asynccontextmanager
async def _both(opened: Opened, folder: Path) -> AsyncIterator[Client]:
    """Our collection, empty, and the client with its own."""
    async with AsyncExitStack() as stack:
        await opened.store.create_collection(OURS, SPEC)
        if not opened.engine.in_process:
            await opened.store.create_collection(COLLECTION, SPEC)
        yield stack.enter_context(_client(opened, folder))
        for collection in (OURS, COLLECTION):
            await opened.store.drop_collection(collection)


@contextmanager
def _client(opened: Opened, folder: Path) -> Iterator[Client]:
    match opened.engine.name:
        case "pgvector":
            from benchmarks.byhand import pgvector

            with pgvector.open_byhand(opened.options["url"], connections=WORKERS) as client:
                yield client
        case "qdrant-server":
            from benchmarks.byhand import qdrant

            with qdrant.open_byhand(opened.options) as client:
                yield client
        case "qdrant-edge":
            from benchmarks.byhand import edge

            with edge.open_byhand(folder / "edge", SPEC) as client:
                yield client
        case "milvus-server":
            from benchmarks.byhand import milvus

            sparse = Feature.LEXICAL in opened.store.capabilities.features
            with milvus.open_byhand(opened.options["uri"], sparse=sparse) as client:
                yield client
        case "milvus-lite":
            from benchmarks.byhand import lite

            with lite.open_byhand(folder / "lite.db", SPEC) as client:
                yield client
        case name:
            raise ConfigurationError(f"there is no client to compare {name} with")


async def _measure_engine(sides: Sides) -> tuple[list[list[str | float | int | None]], list[Bar]]:
    loads = await _load_both(sides)
    click.echo(f"{sides.name}: waiting for the indexes …", err=True)
    await sides.opened.settle(OURS)
    sides.client.settle()
    rows = [_rate_row(sides, "load", loads, sides.load.batch, "rows/s")]
    bars: list[Bar] = []
    if sides.opened.engine.in_process:
        for condition, below, _ in CONDITIONS[:2]:
            turns = await _search_in_turn(sides, condition, below)
            rows.append(_time_row(sides, condition, turns))
            extra = added(turns.ours, turns.theirs, seed=sides.seed).value * 1000
            name = f"{sides.name}, {condition} search: ms added at p50"
            bars.append(Bar(name=name, value=extra, bound=MOST_ADDED_MS, relation="<="))
        return rows, bars
    bars.append(_rate_bar(sides, "load", loads))
    for condition, below, workers in CONDITIONS:
        turns = await _search_blocks(sides, condition, below, workers)
        rows.append(_rate_row(sides, f"search, {condition}", turns, sides.load.queries, "searches/s"))
        bars.append(_rate_bar(sides, f"search, {condition}", turns))
    return rows, bars


async def _load_both(sides: Sides) -> Turns:
    turns = Turns()
    countdown = Countdown(f"{sides.name}: loads", sides.load.loads)
    store = sides.opened.store
    for number, batch in enumerate(sides.rows.batches(sides.load.batch)):
        for ours in _order(number):
            started = time.perf_counter()
            if ours:
                await store.upsert(OURS, SCOPE.as_service(), batch)
            else:
                sides.client.load(batch)
            (turns.ours if ours else turns.theirs).append(time.perf_counter() - started)
        countdown.show(number + 1)
    return turns


async def _search_blocks(sides: Sides, condition: str, below: int | None, workers: int) -> Turns:
    """Blocks of searches, ``workers`` at once, in turn; the first pair does not count."""
    turns = Turns()
    countdown = Countdown(f"{sides.name}: blocks of searches, {condition}", sides.load.searches + 1)
    blocks = np.split(sides.queries, sides.load.searches)
    for number, queries in enumerate([blocks[0], *blocks]):
        for ours in _order(number):
            started = time.perf_counter()
            if ours:
                counts = await _search_ours(sides, queries, below, workers)
            else:
                counts = sides.client.search_all(queries, limit=LIMIT, below=below, workers=workers)
            (turns.ours if ours else turns.theirs).append(time.perf_counter() - started)
            _check(sides.name, counts)
        countdown.show(number + 1)
    return Turns(turns.ours[1:], turns.theirs[1:])


async def _search_ours(sides: Sides, queries: Vectors, below: int | None, workers: int) -> Sequence[int]:
    waiting = iter(queries)

    async def work() -> list[int]:
        return [await _search(sides.opened, query, below) for query in waiting]

    if workers == 1:
        return await work()
    return [count for counts in await asyncio.gather(*(work() for _ in range(workers))) for count in counts]


async def _search_in_turn(sides: Sides, condition: str, below: int | None) -> Turns:
    """Each search's seconds, in blocks in turn; the first pair of blocks does not count."""
    turns = Turns()
    countdown = Countdown(f"{sides.name}: blocks of searches, {condition}", sides.load.searches + 1)
    blocks = np.split(sides.queries, sides.load.searches)
    for number, queries in enumerate([blocks[0], *blocks]):
        for ours in _order(number):
            for query in queries:
                started = time.perf_counter()
                if ours:
                    count = await _search(sides.opened, query, below)
                else:
                    count = sides.client.search(query, limit=LIMIT, below=below)
                (turns.ours if ours else turns.theirs).append(time.perf_counter() - started)
                _check(sides.name, [count])
        countdown.show(number + 1)
    return Turns(turns.ours[sides.load.queries :], turns.theirs[sides.load.queries :])


async def _search(opened: Opened, query: Vector, below: int | None) -> int:
    passing = None if below is None else Compare(operator="lt", key=FIELD, value=below)
    return len(await opened.store.search(OURS, SCOPE, query, limit=LIMIT, filter=passing))


def _order(number: int) -> tuple[bool, bool]:
    """Whose turn it is, ours being true: each side is first in every other pair."""
    return (True, False) if number % 2 else (False, True)


def _check(name: str, counts: Sequence[int]) -> None:
    if any(count != LIMIT for count in counts):
        raise ConfigurationError(f"{name}: a search gave {min(counts)} rows, not {LIMIT}")


def _rate_row(sides: Sides, work: str, turns: Turns, size: int, unit: str) -> list[str | float | int | None]:
    share = ratio(turns.ours, turns.theirs, seed=sides.seed)
    ours, theirs = (size / percentile(seconds, 0.5) for seconds in (turns.ours, turns.theirs))
    return [sides.name, work, ours, theirs, unit, share.value, str(share)]


def _rate_bar(sides: Sides, work: str, turns: Turns) -> Bar:
    share = ratio(turns.ours, turns.theirs, seed=sides.seed)
    return Bar(name=f"{sides.name}, {work}: share of the client's", value=share.value, bound=LEAST_SHARE, relation=">=")


def _time_row(sides: Sides, condition: str, turns: Turns) -> list[str | float | int | None]:
    extra = added(turns.ours, turns.theirs, seed=sides.seed)
    shown = Estimate(value=extra.value * 1000, low=extra.low * 1000, high=extra.high * 1000)
    ours, theirs = (percentile(seconds, 0.5) * 1000 for seconds in (turns.ours, turns.theirs))
    work = f"search, {condition}, p50"
    return [sides.name, work, ours, theirs, "ms", ours / theirs, f"{shown} added"]
