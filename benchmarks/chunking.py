"""Recursive, semantic and fixed chunks compared at the same mean size, with the same embedder, and what they cost.

The questions are answered from the chunks of all corpora together: the five whose vectors are nearest. Each chunker's
largest size is searched so that its mean agrees with that of recursive chunks at the settings' size within 5 %.
Method and measures: see :mod:`benchmarks.chunking_scores`. The header is measured on the corpus that has headings,
on its questions alone, by vectors and by terms.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import click
import numpy as np

from benchmarks.chunking_scores import MEASURES, Scores, interval, score
from benchmarks.chunking_set import CORPORA, HEADED, SMALL, ChunkingSet, Question, Span, load_chunking_set
from benchmarks.report import Bar, Report
from benchmarks.texts import Lexicon
from ingest.chunking import FixedChunker, HeadedChunker, RecursiveChunker, SemanticChunker
from ingest.chunking.tokens import Starts, token_starts
from ingest.embedding import embed_documents
from rag.core.ports import Chunker, Embedder, Tokenizer
from rag.core.types import Chunk, Vectors
from rag.embedding import load_tokenizer
from rag.models import resolve
from rag.settings import Settings, load_settings
from rag.wiring import open_models

KINDS = ("recursive", "semantic", "fixed")
RETRIEVED = 5
APART = 0.05
PROBES = 8
COST_CORPUS = "state_of_the_union"
MOST_COST: Mapping[str, float] = {"recursive": 1.2, "semantic": 2.5, "fixed": 1.2}
COLUMNS = ("chunker", "found by", "largest", "mean", "chunks", *MEASURES, "recall against recursive")

Chunks: TypeAlias = Mapping[str, Sequence[Chunk]]
Row: TypeAlias = list[str | float | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """The chunks of all corpora by one chunker, its largest size, and their mean size in tokens."""

    largest: int
    chunks: Chunks
    mean: float


class Remembered:
    """An embedding of documents that reads each text once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vectors] = {}

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        vectors = await embed_documents(self._embedder, new, dimension=self._embedder.dimension)
        self._known |= dict(zip(new, vectors, strict=True))
        return np.stack([self._known[text] for text in texts])


class Comparison:
    """Chunkers over one set, scored by the tokens that retrieval finds."""

    def __init__(self, data: ChunkingSet, embedder: Embedder, tokenizer: Tokenizer, settings: Settings) -> None:
        self.data = data
        self.settings = settings
        self._embedder = embedder
        self._tokenizer = tokenizer
        self._documents = Remembered(embedder)
        self._starts: Mapping[str, Starts] = {
            name: token_starts(document.text, tokenizer) for name, document in data.documents.items()
        }

    def chunker(self, kind: str, largest: int, *, overlap: int, embed: Callable[..., Awaitable[Vectors]]) -> Chunker:
        """A chunker of the settings' minimum."""
        least = self.settings.ingest.chunk_min_tokens
        match kind:
            case "semantic":
                return SemanticChunker(self._tokenizer, embed, max_tokens=largest, min_tokens=least)
            case "fixed":
                return FixedChunker(self._tokenizer, max_tokens=largest, min_tokens=least, overlap_tokens=overlap)
            case _:
                return RecursiveChunker(self._tokenizer, max_tokens=largest, min_tokens=least, overlap_tokens=overlap)

    async def sized(self, kind: str, largest: int) -> Sized:
        """All corpora chunked, without overlap, so that each token stands in one chunk whatever the chunker."""
        chunker = self.chunker(kind, largest, overlap=0, embed=self._documents.embed)
        chunks = {name: await chunker.chunk(document) for name, document in self.data.documents.items()}
        sizes = [end - start for name, each in chunks.items() for start, end in self._spans(name, each)]
        return Sized(largest=largest, chunks=chunks, mean=float(np.mean(sizes)))

    async def as_large_as(self, mean: float, kind: str) -> Sized:
        """The chunker at the largest size whose mean is nearest to ``mean``, found by halving."""
        low, high = round(mean * 0.8), round(mean * 2)
        tried: list[Sized] = []
        for _ in range(PROBES):
            tried.append(await self.sized(kind, (low + high) // 2))
            if abs(tried[-1].mean / mean - 1) < APART / 5 or high - low < 2:
                break
            low, high = (tried[-1].largest, high) if tried[-1].mean < mean else (low, tried[-1].largest)
        return min(tried, key=lambda each: abs(each.mean - mean))

    async def headed(self, sized: Sized) -> Sized:
        """The same chunks of the corpus that has headings, alone, with their headers."""
        chunker = HeadedChunker(_Given(sized.chunks[HEADED]), self._tokenizer)
        return replace(sized, chunks={HEADED: await chunker.chunk(self.data.documents[HEADED])})

    async def by_vectors(self, chunks: Chunks) -> Scores:
        """Scores of the questions about these corpora, the chunks found by vector."""
        questions = self._about(chunks)
        known = await self._documents.embed([chunk.indexed for each in chunks.values() for chunk in each])
        asked = await self._embedder.embed([question.text for question in questions], kind="query")
        best = np.argsort(-(asked @ known.T), axis=1, kind="stable")[:, :RETRIEVED]
        return self._scores(questions, chunks, best.tolist())

    def by_terms(self, chunks: Chunks) -> Scores:
        """Scores of the same questions, the chunks found by terms, those of the headers with them."""
        questions = self._about(chunks)
        lexicon = Lexicon([chunk.indexed for each in chunks.values() for chunk in each])
        weights = lexicon.documents()
        best = []
        for question in questions:
            query = lexicon.query(question.text)
            found = [sum(weight * terms.get(term, 0.0) for term, weight in query.items()) for terms in weights]
            best.append(np.argsort(-np.array(found), kind="stable")[:RETRIEVED].tolist())
        return self._scores(questions, chunks, best)

    async def cost(self, kind: str, sized: Sized) -> float:
        """The time to chunk and embed one corpus, over that to embed its chunks."""
        document = self.data.documents[COST_CORPUS]

        async def embed(texts: Sequence[str]) -> Vectors:
            return await embed_documents(self._embedder, texts, dimension=self._embedder.dimension)

        began = time.perf_counter()
        chunks = await self.chunker(kind, sized.largest, overlap=0, embed=embed).chunk(document)
        chunked = time.perf_counter()
        await embed([chunk.text for chunk in chunks])
        return (time.perf_counter() - began) / (time.perf_counter() - chunked)

    def _about(self, chunks: Chunks) -> list[Question]:
        return [question for question in self.data.questions if question.corpus in chunks]

    def _spans(self, name: str, chunks: Sequence[Chunk]) -> list[Span]:
        return self._tokens(name, [(chunk.start, chunk.end) for chunk in chunks])

    def _tokens(self, name: str, spans: Sequence[Span]) -> list[Span]:
        """Spans of code points as spans of tokens."""
        places = np.searchsorted(self._starts[name], np.array(spans, dtype=np.int64)).tolist()
        return [(start, end) for start, end in places]

    def _scores(self, questions: Sequence[Question], chunks: Chunks, best: Sequence[Sequence[int]]) -> Scores:
        flat = [(name, span) for name, each in chunks.items() for span in self._spans(name, each)]
        return np.array(
            [
                score(
                    [flat[place][1] for place in places if flat[place][0] == question.corpus],
                    sum(flat[place][1][1] - flat[place][1][0] for place in places if flat[place][0] != question.corpus),
                    self._tokens(question.corpus, question.references),
                )
                for question, places in zip(questions, best, strict=True)
            ]
        )


class _Given:
    """A chunker whose chunks are known."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = list(chunks)

    async def chunk(self, document: object) -> list[Chunk]:
        del document
        return self._chunks


async def measure(*, seed: int, quick: bool) -> Report:
    """Compare the chunkers on all five corpora, or on the three small ones when ``quick``."""
    settings = load_settings()
    tokenizer = load_tokenizer(resolve(settings.embedding.model, models_dir=settings.models_folder, report=_say))
    async with open_models(settings) as models:
        data = load_chunking_set(SMALL if quick else CORPORA)
        return await compare(Comparison(data, models.embedder, tokenizer, settings), seed=seed)


async def compare(comparison: Comparison, *, seed: int) -> Report:
    """Every chunker at the mean size of recursive chunks, headers on and off, and the costs."""
    ingest = comparison.settings.ingest
    sized = {"recursive": await comparison.sized("recursive", ingest.chunk_tokens)}
    for kind in KINDS[1:]:
        sized[kind] = await comparison.as_large_as(sized["recursive"].mean, kind)
    scores: dict[str, Scores] = {}
    for kind, each in sized.items():
        scores[kind] = await comparison.by_vectors(each.chunks)
        _say(f"{kind}: largest {each.largest}, mean {each.mean:.0f}, recall {scores[kind][:, 0].mean():.4f}")
    rows = [_row(kind, "vectors", sized[kind], scores[kind], scores["recursive"], seed=seed) for kind in KINDS]
    for kind in KINDS[:2]:
        rows += await _header_rows(comparison, kind, sized[kind], seed=seed)
    costs = {kind: await comparison.cost(kind, sized[kind]) for kind in KINDS}
    bars = [*_size_bars(sized), _default_bar(scores, ingest.chunker, seed=seed), *_cost_bars(costs)]
    parameters = {"retrieved": RETRIEVED, "default": ingest.chunker, "questions": len(comparison.data.questions)}
    return Report(name="chunking", columns=COLUMNS, rows=rows, bars=bars, seed=seed, parameters=parameters)


async def _header_rows(comparison: Comparison, kind: str, sized: Sized, *, seed: int) -> list[Row]:
    plain = replace(sized, chunks={HEADED: sized.chunks[HEADED]})
    headed = await comparison.headed(sized)
    vectors = [await comparison.by_vectors(each.chunks) for each in (plain, headed)]
    terms = [comparison.by_terms(each.chunks) for each in (plain, headed)]
    return [
        _row(f"{kind}, {HEADED}{name}", found, each, scores[place], scores[0], seed=seed)
        for found, scores in (("vectors", vectors), ("terms", terms))
        for place, (name, each) in enumerate(((" only", plain), (" with header", headed)))
    ]


def _row(name: str, found: str, sized: Sized, scores: Scores, base: Scores, *, seed: int) -> Row:
    """``base`` are the scores to compare with: of recursive chunks, or of those without header."""
    against = "-" if scores is base else str(interval(scores[:, 0] - base[:, 0], seed=seed))
    measured = [str(interval(column, seed=seed)) for column in scores.T]
    chunks = sum(map(len, sized.chunks.values()))
    return [name, found, sized.largest, round(sized.mean, 1), chunks, *measured, against]


def _size_bars(sized: Mapping[str, Sized]) -> list[Bar]:
    mean = sized["recursive"].mean
    return [
        Bar(
            name=f"{kind}: mean size apart from recursive",
            value=abs(sized[kind].mean / mean - 1),
            bound=APART,
            relation="<=",
        )
        for kind in KINDS[1:]
    ]


def _default_bar(scores: Mapping[str, Scores], default: str, *, seed: int) -> Bar:
    """No other chunker may be better than the default beyond chance."""
    leads = [interval(scores[kind][:, 0] - scores[default][:, 0], seed=seed).low for kind in KINDS if kind != default]
    return Bar(name=f"recall by which another leads {default}, at least", value=max(leads), bound=0.0, relation="<=")


def _cost_bars(costs: Mapping[str, float]) -> list[Bar]:
    return [
        Bar(name=f"{kind}: chunk and embed over embed", value=costs[kind], bound=MOST_COST[kind], relation="<=")
        for kind in KINDS
    ]


def _say(message: str) -> None:
    click.echo(message, err=True)
