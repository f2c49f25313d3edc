"""Lexical search on every engine that offers it: the same ranking, at a cost that follows the query's postings.

*Agreement*: two judged sets, English and Chinese, one record a document; nDCG@10 of each engine and of the exact
dot product computed here. *Cost*: generated texts under Zipf's law, at N and at 10 N rows; beside queries of words
drawn as in the texts, queries of words that a fixed number of rows hold at either size, whose postings do not grow.
PostgreSQL says itself what it reads: a plan is printed, and no plan may scan a table, unless the query has words
that half of the rows or more hold.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import click
import numpy as np

from benchmarks.countdown import Countdown
from benchmarks.datasets import RetrievalSet, load_retrieval_set
from benchmarks.engines import Opened, each_opened
from benchmarks.metrics import ndcg, percentile
from benchmarks.plans import Plan, lexical_plans
from benchmarks.report import Bar, Report
from benchmarks.rows import SCOPE, Numbers, Rows, load, row_id
from benchmarks.texts import Lexicon, zipf_texts
from rag.core.errors import ConfigurationError
from rag.core.records import CollectionSpec, Feature
from rag.core.types import Terms, Vectors

SETS = ("scifact", "cmrc2018_dev_zh")
LIMIT = 10
DIMENSION = 8
"""The vectors play no part."""
WORDS, VOCABULARY = 50, 100_000
QUERY_WORDS = 6
RARE_ROWS = 50
"""Rows that hold a planted word, whatever the size of the collection."""
RARE_WORDS = 20
GROWTH = 10
MOST_ROWS = 0.5
MOST_APART = 0.002
MOST_TIMES = 12.0
COLUMNS = ("engine", "measured", "on", "rows", "nDCG@10", "p50 ms", "times the smaller's")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A judged set, ready to load, and its queries as terms."""

    data: RetrievalSet
    documents: Sequence[str]
    rows: Rows
    queries: dict[str, Terms]

    def score(self, rankings: dict[str, list[int]]) -> float:
        """Mean nDCG@10 of rankings of row numbers."""
        return fmean(
            ndcg([self.documents[row] for row in ranking], self.data.judgements[query])
            for query, ranking in rankings.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """Generated rows, queries drawn as their texts are, and queries of planted words."""

    rows: Rows
    lexicon: Lexicon
    common: Sequence[Terms]
    rare: Sequence[Terms]


@dataclass(slots=True)
class Findings:
    """What was measured so far."""

    rows: list[list[str | float | int | None]]
    bars: list[Bar]
    notes: list[str]
    scores: dict[str, dict[str, float]]
    plan_rows: int
    """Rows of the collection whose plan is printed."""


async def measure(*, seed: int, quick: bool, stores: Sequence[str] = ()) -> Report:
    """Measure every engine: agreement, cost, and the plan where there is one to see."""
    count = 2_000 if quick else 10_000
    found = Findings(rows=[], bars=[], notes=[], scores={}, plan_rows=GROWTH * count)
    sets = _judged_sets(seed, found.notes, quick=quick)
    for judged in sets:
        exact = judged.score(exact_rankings(judged))
        found.scores[judged.data.name] = {"exact": exact}
        found.rows.append(["exact", "agreement", judged.data.name, len(judged.rows), exact, None, None])
    sizes = [_sized(size, queries=40 if quick else 100, seed=seed) for size in (count, GROWTH * count)]
    with tempfile.TemporaryDirectory(prefix="anchorage-bench-", ignore_cleanup_errors=True) as folder:
        async with aclosing(each_opened(stores, Path(folder), found.notes)) as engines:
            async for opened in engines:
                if Feature.LEXICAL not in opened.store.capabilities.features:
                    reason = opened.store.capabilities.reasons.get(Feature.LEXICAL)
                    found.notes.append(f"{opened.engine.name} offers no lexical search: {reason}")
                    continue
                for judged in sets:
                    await _measure_agreement(opened, judged, found)
                await _measure_cost(opened, sizes, found)
    found.bars[:0] = _agreement_bars(found.scores)
    parameters = {"words": WORDS, "vocabulary": VOCABULARY, "limit": LIMIT, "quick": quick}
    return Report(
        name="lexical", columns=COLUMNS, rows=found.rows, bars=found.bars, seed=seed, parameters=parameters,
        notes=found.notes,
    )  # fmt: skip


def _judged_sets(seed: int, notes: list[str], *, quick: bool) -> list[Judged]:
    try:
        return [_judged(load_retrieval_set(name), seed, quick=quick) for name in SETS]
    except ConfigurationError as exc:
        notes.append(f"agreement was not measured: {exc}")
        return []


def _judged(data: RetrievalSet, seed: int, *, quick: bool) -> Judged:
    data = data.sample(60 if quick else 300, seed=seed)
    wanted = {document for query in data.queries for document in data.judgements[query]}
    others = [name for name in data.documents if name not in wanted]
    kept = random.Random(seed).sample(others, min(len(others), 1500)) if quick else others
    documents = [*sorted(wanted), *kept]
    lexicon = Lexicon([data.documents[name] for name in documents])
    queries = {query: lexicon.query(text) for query, text in data.queries.items()}
    rows = Rows(vectors=_vectors(len(documents), seed), terms=lexicon.documents())
    return Judged(data=data, documents=documents, rows=rows, queries=queries)


def exact_rankings(judged: Judged) -> dict[str, list[int]]:
    """The best rows of each query by dot product, ties by id."""
    postings: dict[int, list[tuple[int, float]]] = {}
    for row, terms in enumerate(judged.rows.terms):
        for term, weight in terms.items():
            postings.setdefault(term, []).append((row, weight))
    rankings: dict[str, list[int]] = {}
    for query, terms in judged.queries.items():
        scores: dict[int, float] = {}
        for term, weight in terms.items():
            for row, held in postings.get(term, ()):
                scores[row] = scores.get(row, 0.0) + weight * held
        rankings[query] = sorted(scores, key=lambda row: (-float(np.float32(scores[row])), row_id(row)))[:LIMIT]
    return rankings


def _sized(count: int, *, queries: int, seed: int) -> Sized:
    texts = zipf_texts(count, words=WORDS, vocabulary=VOCABULARY, seed=seed)
    chosen = random.Random(seed)
    for word in range(RARE_WORDS):
        for row in chosen.sample(range(count), RARE_ROWS):
            texts[row] += f" planted{word}"
    lexicon = Lexicon(texts)
    common = zipf_texts(queries, words=QUERY_WORDS, vocabulary=VOCABULARY, seed=seed + 1)
    rare = [" ".join(f"planted{word}" for word in chosen.sample(range(RARE_WORDS), 3)) for _ in range(queries)]
    return Sized(
        rows=Rows(vectors=_vectors(count, seed), terms=lexicon.documents()),
        lexicon=lexicon,
        common=[terms for terms in map(lexicon.query, common) if terms],
        rare=[lexicon.query(text) for text in rare],
    )


async def _measure_agreement(opened: Opened, judged: Judged, found: Findings) -> None:
    engine, name = opened.engine.name, judged.data.name
    collection = f"lexical_{name}"
    await _filled(opened, collection, judged.rows, label=f"{engine}, {name}")
    numbers = Numbers(len(judged.rows))
    rankings: dict[str, list[int]] = {}
    times: list[float] = []
    countdown = Countdown(f"{engine}, {name}: searches", len(judged.queries))
    for query, terms in judged.queries.items():
        milliseconds, ranking = await _timed(opened, collection, terms, numbers)
        rankings[query] = ranking
        times.append(milliseconds)
        countdown.show(len(times))
    await opened.store.drop_collection(collection)
    score = found.scores[name][engine] = judged.score(rankings)
    found.rows.append([engine, "agreement", name, len(judged.rows), score, percentile(times, 0.5), None])


async def _measure_cost(opened: Opened, sizes: Sequence[Sized], found: Findings) -> None:
    engine = opened.engine.name
    smaller: dict[str, float] = {}
    for sized in sizes:
        count = len(sized.rows)
        collection = f"lexical_{count}"
        await _filled(opened, collection, sized.rows, label=f"{engine}, {count} rows")
        for words, queries in (("words as in texts", sized.common), (f"words in {RARE_ROWS} rows", sized.rare)):
            p50 = await _p50(opened, collection, queries, label=f"{engine}, {count} rows, {words}")
            times = p50 / smaller[words] if words in smaller else None
            found.rows.append([engine, "cost", words, count, None, p50, times])
            if times is not None and queries is sized.common:
                name = f"{engine}: time at {GROWTH} times the rows, {words}"
                found.bars.append(Bar(name=name, value=times, bound=MOST_TIMES, relation="<="))
            smaller[words] = p50
        if opened.engine.kind == "pgvector":
            _show_plans(await lexical_plans(opened, collection, sized.common, sized.lexicon), count, found)
        await opened.store.drop_collection(collection)


async def _filled(opened: Opened, collection: str, rows: Rows, *, label: str) -> None:
    await opened.store.create_collection(collection, CollectionSpec(dimension=DIMENSION))
    await load(opened.store, collection, rows, label=label)
    click.echo(f"{label}: waiting for the index …", err=True)
    await opened.settle(collection)


async def _p50(opened: Opened, collection: str, queries: Sequence[Terms], *, label: str) -> float:
    """Milliseconds of the median search; each query runs once before it counts, so that no side reads cold."""
    countdown = Countdown(label, 2 * len(queries))
    times: list[float] = []
    for number, terms in enumerate([*queries, *queries]):
        started = time.perf_counter()
        await opened.store.lexical_search(collection, SCOPE, terms, limit=LIMIT)
        times.append((time.perf_counter() - started) * 1000)
        countdown.show(number + 1)
    return percentile(times[len(queries) :], 0.5)


async def _timed(opened: Opened, collection: str, terms: Terms, numbers: Numbers) -> tuple[float, list[int]]:
    started = time.perf_counter()
    hits = await opened.store.lexical_search(collection, SCOPE, terms, limit=LIMIT)
    return (time.perf_counter() - started) * 1000, numbers.of([hit.id for hit in hits])


def _show_plans(plans: Sequence[Plan], count: int, found: Findings) -> None:
    """Where most rows hold a word of the query, all of them are its postings, and PostgreSQL may as well scan."""
    selective = [plan for plan in plans if plan.share < MOST_ROWS]
    others = [plan for plan in plans if plan.share >= MOST_ROWS]
    found.bars.append(
        Bar(
            name=f"pgvector, {count} rows: table scans in the plans of {len(selective)} queries",
            value=sum(plan.scans for plan in selective) if selective else None,
            bound=0,
            relation="<=",
        )
    )
    found.notes.append(
        f"pgvector, {count} rows: {len(others)} other queries have words in {MOST_ROWS:.0%} of the rows or more; "
        f"{sum(plan.scans > 0 for plan in others)} of them are answered by a scan"
    )
    if count == found.plan_rows and selective:
        found.notes += [f"PostgreSQL's plan of a lexical search, {count} rows:", *selective[0].lines]


def _agreement_bars(scores: dict[str, dict[str, float]]) -> list[Bar]:
    return [
        Bar(
            name=f"{name}: nDCG@10 of {', '.join(each)} apart",
            value=max(each.values()) - min(each.values()) if len(each) > 1 else None,
            bound=MOST_APART,
            relation="<=",
        )
        for name, each in scores.items()
    ]


def _vectors(count: int, seed: int) -> Vectors:
    return np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
