"""Retrieval quality on five judged sets, through the chunker, embedder, store and reranker of the service.

Documents are chunked as at ingest and kept in PGVector; a document's rank is that of its best chunk.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid5

import click
import numpy as np

from benchmarks.datasets import RetrievalSet, load_retrieval_set
from benchmarks.metrics import hit, ndcg, recall
from benchmarks.report import Bar, Report
from ingest.chunking import RecursiveChunker
from rag.catalog.embedded import open_embedded_postgres
from rag.core.errors import ConfigurationError
from rag.core.ports import Embedder, Reranker, VectorStore
from rag.core.records import ID_NAMESPACE, CollectionSpec, Hit, RecordBatch, record_id
from rag.core.types import Block, Chunk, ParsedDocument, Priority, Quality, Scope, Terms, Vector
from rag.embedding import load_tokenizer
from rag.lexical import TermCounts, count_terms, document_weights, query_weights
from rag.models import resolve
from rag.settings import Settings, load_settings
from rag.wiring import open_models
from stores.registry import open_store

SETS = ("xquad_en", "xquad_zh", "claude_docs", "cmrc2018_dev_zh", "scifact")
MODES = ("dense", "lexical", "hybrid", "reranked")
DEPTH = 200
SCOPE = Scope()
MOST_QUERIES, QUICK_QUERIES = 300, 60
BATCH = 256

BARS: Sequence[tuple[str, str, str, float]] = (
    ("xquad_en", "dense", "nDCG@10", 0.96),
    ("xquad_zh", "dense", "nDCG@10", 0.94),
    ("scifact", "lexical", "nDCG@10", 0.65),
    ("cmrc2018_dev_zh", "lexical", "hit@10", 0.96),
    ("scifact", "reranked", "nDCG@10", 0.70),
    ("xquad_zh", "reranked", "nDCG@10", 0.975),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """One set as it stands in the store, with what the query side needs to weigh terms."""

    collection: str
    chunks: int
    document_counts: Mapping[int, int]
    names: Mapping[UUID, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The opened parts."""

    store: VectorStore
    embedder: Embedder
    reranker: Reranker
    chunker: RecursiveChunker
    settings: Settings


async def measure(*, seed: int, quick: bool) -> Report:
    """Measure every set with at most 300 queries, or 60 when ``quick``, drawn by the seed."""
    rows: list[list[str | float | int | None]] = []
    figures: dict[tuple[str, str, str], float] = {}
    async with open_bench(load_settings()) as bench:
        for name in SETS:
            data = load_retrieval_set(name).sample(QUICK_QUERIES if quick else MOST_QUERIES, seed=seed)
            click.echo(f"{name}: {len(data.documents)} documents, {len(data.queries)} queries …", err=True)
            for mode, scores in (await measure_set(bench, data)).items():
                figures |= {(name, mode, metric): value for metric, value in scores.items()}
                rows.append([name, mode, len(data.queries), *scores.values()])
                click.echo(
                    "  " + ", ".join(f"{metric} {value:.4f}" for metric, value in scores.items()) + f" {mode}", err=True
                )
        parameters = {"rerank_depth": bench.settings.rerank.depth, "rerank_weight": bench.settings.rerank.weight}
    columns = ("set", "mode", "queries", "nDCG@10", "recall@100", "hit@10")
    bars = [*_stated_bars(figures), *_order_bars(figures)]
    return Report(name="quality", columns=columns, rows=rows, bars=bars, seed=seed, parameters=parameters)


@asynccontextmanager
async def open_bench(settings: Settings) -> AsyncIterator[Bench]:
    """Open the service's parts on a throw-away Postgres."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="anchorage-bench-")))
        postgres = await stack.enter_async_context(open_embedded_postgres(folder))
        models = await stack.enter_async_context(open_models(settings))
        if models.reranker is None:
            raise ConfigurationError("this benchmark measures reranking, and it is switched off")
        yield Bench(
            store=await stack.enter_async_context(open_store("pgvector", {"url": postgres.url})),
            embedder=models.embedder,
            reranker=models.reranker,
            chunker=RecursiveChunker(
                load_tokenizer(resolve(settings.embedding.model, models_dir=settings.models_folder, report=_report)),
                max_tokens=settings.ingest.chunk_tokens,
                min_tokens=settings.ingest.chunk_min_tokens,
                overlap_tokens=settings.ingest.chunk_overlap_tokens,
            ),
            settings=settings,
        )


def _report(message: str) -> None:
    click.echo(message, err=True)


async def measure_set(bench: Bench, data: RetrievalSet) -> dict[str, dict[str, float]]:
    """Index one set and score every mode on its queries."""
    index = await build_index(bench, data)
    rankings: dict[str, dict[str, list[str]]] = {mode: {} for mode in MODES}
    for done, (query, text) in enumerate(data.queries.items(), start=1):
        for mode, hits in (await retrieve(bench, index, text)).items():
            rankings[mode][query] = _documents(hits, index)
        if done % 100 == 0:
            click.echo(f"  {done}/{len(data.queries)} queries", err=True)
    return {mode: _score(rankings[mode], data) for mode in MODES}


async def build_index(bench: Bench, data: RetrievalSet) -> Index:
    """Chunk, embed and store every document, with exact length statistics."""
    names = {uuid5(ID_NAMESPACE, name): name for name in data.documents}
    rows = [(uid, chunk) for uid, name in names.items() for chunk in await _chunks(bench, data.documents[name])]
    counts = [count_terms(chunk.text) for _, chunk in rows]
    collection = f"bench_{data.name}"
    await bench.store.create_collection(collection, CollectionSpec(dimension=bench.embedder.dimension))
    average = sum(each.length for each in counts) / len(counts)
    for start in range(0, len(rows), BATCH):
        batch = await _batch(bench, collection, rows[start : start + BATCH], counts[start : start + BATCH], average)
        await bench.store.upsert(collection, SCOPE.as_service(), batch)
        if start // BATCH % 8 == 7:
            click.echo(f"  {start + len(batch)}/{len(rows)} chunks", err=True)
    document_counts = Counter(term for each in counts for term in each.counts)
    return Index(collection=collection, chunks=len(rows), document_counts=document_counts, names=names)


async def _chunks(bench: Bench, text: str) -> list[Chunk]:
    return await bench.chunker.chunk(ParsedDocument(text=text, blocks=(Block(start=0, end=len(text)),)))


async def _batch(
    bench: Bench, collection: str, rows: Sequence[tuple[UUID, Chunk]], counts: Sequence[TermCounts], average: float
) -> RecordBatch:
    texts = [chunk.text for _, chunk in rows]
    size = len(rows)
    return RecordBatch(
        tenant=SCOPE.tenant,
        ids=[
            record_id(tenant=SCOPE.tenant, collection=collection, document=uid, generation=1, index=chunk.index)
            for uid, chunk in rows
        ],
        vectors=await bench.embedder.embed(texts, kind="document", priority=Priority.BULK),
        terms=[document_weights(each, average_length=average) for each in counts],
        texts=texts,
        starts=[chunk.start for _, chunk in rows],
        ends=[chunk.end for _, chunk in rows],
        documents=[uid for uid, _ in rows],
        generations=[1] * size,
        acls=[()] * size,
        indexes=[chunk.index for _, chunk in rows],
        pages=[chunk.page for _, chunk in rows],
        headings=[chunk.headings for _, chunk in rows],
        qualities=[Quality.FULL] * size,
        metadata=[{}] * size,
    )


async def retrieve(bench: Bench, index: Index, text: str) -> dict[str, list[Hit]]:
    """The four rankings of one query."""
    vector: Vector = np.ascontiguousarray((await bench.embedder.embed([text], kind="query"))[0])
    terms: Terms = query_weights(count_terms(text), chunks=index.chunks, document_counts=index.document_counts)
    store, depth = bench.store, bench.settings.rerank.depth
    hybrid = await store.hybrid_search(index.collection, SCOPE, vector, terms, limit=DEPTH)
    return {
        "dense": await store.search(index.collection, SCOPE, vector, limit=DEPTH),
        "lexical": await store.lexical_search(index.collection, SCOPE, terms, limit=DEPTH),
        "hybrid": hybrid,
        "reranked": [*await bench.reranker.rerank(text, hybrid[:depth]), *hybrid[depth:]],
    }


def _documents(hits: Sequence[Hit], index: Index) -> list[str]:
    return list(dict.fromkeys(index.names[hit.document] for hit in hits))


def _score(rankings: Mapping[str, Sequence[str]], data: RetrievalSet) -> dict[str, float]:
    judged = [(ranking, data.judgements[query]) for query, ranking in rankings.items()]
    return {
        "nDCG@10": float(np.mean([ndcg(ranking, grades) for ranking, grades in judged])),
        "recall@100": float(np.mean([recall(ranking, grades, depth=100) for ranking, grades in judged])),
        "hit@10": float(np.mean([hit(ranking, grades, depth=10) for ranking, grades in judged])),
    }


def _stated_bars(figures: Mapping[tuple[str, str, str], float]) -> list[Bar]:
    return [
        Bar(name=f"{name} {mode} {metric}", value=figures.get((name, mode, metric)), bound=bound, relation=">=")
        for name, mode, metric, bound in BARS
    ]


def _order_bars(figures: Mapping[tuple[str, str, str], float]) -> list[Bar]:
    return [
        Bar(
            name=f"{name} reranked at or above hybrid, nDCG@10",
            value=figures[name, "reranked", "nDCG@10"],
            bound=figures[name, "hybrid", "nDCG@10"],
            relation=">=",
        )
        for name in SETS
    ]
