"""Recall of each store at its defaults, plain and under filters, against the exact answer.

A search is right in what it found if that is at least as near as the tenth nearest row that passes: distances are
computed again, in double precision, so equal ones count alike. Each filter lets a known share of the rows pass,
drawn without regard to the vectors; one more passes a single cluster, which is far from most queries.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import click

from benchmarks.countdown import Countdown
from benchmarks.engines import Opened, each_opened
from benchmarks.metrics import percentile
from benchmarks.report import Bar, Report
from benchmarks.rows import SCOPE, Numbers, load
from benchmarks.vectors import FIELDS, Case, Oracle, VectorSet, clustered_vectors, recalled, shared_vectors
from rag.core.errors import ConfigurationError
from rag.core.records import CollectionSpec, Metric

LIMIT = 10
DIMENSION = 128
LEAST_RECALL = 0.95
WARM_UP = 3
COLUMNS = (
    "engine", "vectors", "metric", "filter", "rows passing",
    "recall@10", "fewest rows", "p50 ms", "index", "consistency",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the searches of one case gave; ``complete`` is the share of them with as many rows as there are."""

    recall: float
    complete: float
    fewest: int
    milliseconds: float


async def measure(*, seed: int, quick: bool, stores: Sequence[str] = ()) -> Report:
    """Measure every engine on every set of vectors."""
    notes: list[str] = []
    sets = list(_sets(seed, notes, quick=quick))
    rows: list[list[str | float | int | None]] = []
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory(prefix="anchorage-bench-", ignore_cleanup_errors=True) as folder:
        async with aclosing(each_opened(stores, Path(folder), notes)) as engines:
            async for opened in engines:
                for make in sets:
                    measured, held = await _measure_set(opened, make())
                    rows += measured
                    bars += held
    parameters = {"limit": LIMIT, "dimension": DIMENSION, "quick": quick}
    return Report(
        name="recall", columns=COLUMNS, rows=rows, bars=bars, seed=seed, parameters=parameters, notes=notes
    )  # fmt: skip


def _sets(seed: int, notes: list[str], *, quick: bool) -> Iterator[Callable[[], VectorSet]]:
    """What makes each set, so that one is in memory at a time.

    The short form has 12,000 rows, for an index that an engine builds from 10,000 on is to be measured too.
    """
    queries = 60 if quick else 400
    for metric in (Metric.COSINE,) if quick else tuple(Metric):
        try:
            shared_vectors(metric, queries=1, seed=seed)
        except ConfigurationError as exc:
            notes.append(f"the real embeddings were not measured: {exc}")
            break
        yield lambda metric=metric: shared_vectors(metric, queries=queries, seed=seed)  # type: ignore[misc]
    count = 12_000 if quick else 100_000
    yield lambda: clustered_vectors(count, dimension=DIMENSION, queries=queries // 2, seed=seed)


async def _measure_set(opened: Opened, vectors: VectorSet) -> tuple[list[list[str | float | int | None]], list[Bar]]:
    name = opened.engine.name
    collection = f"recall_{vectors.metric}_{len(vectors.base)}"
    spec = CollectionSpec(dimension=vectors.base.shape[1], metric=vectors.metric, filterable=FIELDS)
    await opened.store.create_collection(collection, spec)
    await load(opened.store, collection, vectors.rows(), label=f"{name}, {vectors.name}")
    click.echo(f"{name}, {vectors.name}, {vectors.metric}: waiting for the index …", err=True)
    stats = await opened.settle(collection)
    outcomes = await _search_all(opened, collection, vectors)
    await opened.store.drop_collection(collection)
    rows: list[list[str | float | int | None]] = [
        [
            name, vectors.name, str(vectors.metric), case.name, int(case.passing.sum()), outcome.recall, outcome.fewest,
            outcome.milliseconds, opened.index_state(stats), opened.engine.consistency,
        ]
        for case, outcome in outcomes
    ]  # fmt: skip
    return rows, list(_bars(f"{name}, {vectors.name}, {vectors.metric}", [outcome for _, outcome in outcomes]))


async def _search_all(opened: Opened, collection: str, vectors: VectorSet) -> list[tuple[Case, Outcome]]:
    oracle, numbers, cases = Oracle(vectors), Numbers(len(vectors.base)), list(vectors.cases())
    countdown = Countdown(f"{opened.engine.name}, {vectors.name}: searches", len(cases) * len(vectors.queries))
    outcomes: list[tuple[Case, Outcome]] = []
    for case in cases:
        recalls: list[float] = []
        counts: list[int] = []
        times: list[float] = []
        for query in [*vectors.queries[:WARM_UP], *vectors.queries]:
            started = time.perf_counter()
            hits = await opened.store.search(collection, SCOPE, query, limit=LIMIT, filter=case.filter)
            times.append((time.perf_counter() - started) * 1000)
            counts.append(len(hits))
            found = numbers.of([hit.id for hit in hits])
            recalls.append(recalled(oracle.scores(query), case.passing, found, limit=LIMIT))
            countdown.show(max(1, len(outcomes) * len(vectors.queries) + len(recalls) - WARM_UP))
        outcomes.append((case, _outcome(case, recalls[WARM_UP:], counts[WARM_UP:], times[WARM_UP:])))
    return outcomes


def _outcome(case: Case, recalls: Sequence[float], counts: Sequence[int], times: Sequence[float]) -> Outcome:
    expected = min(LIMIT, int(case.passing.sum()))
    return Outcome(
        recall=fmean(recalls),
        complete=fmean(count == expected for count in counts),
        fewest=min(counts),
        milliseconds=percentile(times, 0.5),
    )


def _bars(name: str, outcomes: Sequence[Outcome]) -> Iterator[Bar]:
    plain, *filtered = outcomes
    yield Bar(name=f"{name}: recall@10", value=plain.recall, bound=LEAST_RECALL, relation=">=")
    lowest = min(outcome.recall for outcome in filtered)
    yield Bar(name=f"{name}: lowest recall@10 under a filter", value=lowest, bound=LEAST_RECALL, relation=">=")
    complete = min(outcome.complete for outcome in outcomes)
    yield Bar(name=f"{name}: searches with all {LIMIT} rows", value=complete, bound=1.0, relation=">=")
