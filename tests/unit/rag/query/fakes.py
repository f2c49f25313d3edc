"""Ports of the query path with everything in memory and every fault on order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid5

import numpy as np

from rag.core.answers import Delta, DocumentLabel, Message, Usage
from rag.core.catalog import CollectionView, IndexStatistics
from rag.core.errors import CollectionNotFoundError
from rag.core.ports import Embedder, Reranker
from rag.core.records import ID_NAMESPACE, Capabilities, CollectionSpec, Feature, Hit
from rag.core.types import FieldType, Scope, Vectors
from rag.deadline import Deadline
from rag.query import QueryOptions, QueryPipeline, SearchRequest

SCOPE = Scope()


def document_id(name: str) -> UUID:
    return uuid5(ID_NAMESPACE, name)


def make_hit(name: str, text: str = "Some text.", *, score: float = 1.0, generation: int = 1, start: int = 0) -> Hit:
    return Hit(
        id=uuid5(ID_NAMESPACE, f"{name}/{generation}/{start}"),
        score=score,
        document=document_id(name),
        generation=generation,
        index=0,
        text=text,
        start=start,
        end=start + len(text),
    )


def make_hits(count: int, *, prefix: str = "d") -> list[Hit]:
    return [make_hit(f"{prefix}{place}", f"Text {place}.", score=1.0 - place / 1000) for place in range(count)]


@dataclass
class FakeCorpus:
    """Serves one collection; ``served`` is the current generation of each document."""

    served: dict[UUID, int] = field(default_factory=dict)
    model: str = "embedder"
    physical: str = "c_books"
    counts: dict[int, int] = field(default_factory=dict)
    filterable: dict[str, FieldType] = field(default_factory=dict)
    fault: BaseException | None = None
    delay: float = 0.0
    current_fault: BaseException | None = None
    calls: list[str] = field(default_factory=list)

    async def collection(self, scope: Scope, name: str, *, terms: Sequence[int] = ()) -> CollectionView:
        self.calls.append("collection")
        await asyncio.sleep(self.delay)
        if self.fault is not None:
            raise self.fault
        if name != "books":
            raise CollectionNotFoundError
        return CollectionView(
            id=document_id("books"),
            name=name,
            tenant=scope.tenant,
            physical=self.physical,
            embedding_model=self.model,
            spec=CollectionSpec(dimension=4, filterable=self.filterable),
            epoch=7,
            statistics=IndexStatistics(chunks=100, total_terms=5000),
            document_counts=self.counts or dict.fromkeys(terms, 3),
        )

    async def current(
        self, scope: Scope, generations: Collection[tuple[UUID, int]], *, physical: str | None = None
    ) -> Mapping[UUID, DocumentLabel]:
        self.calls.append("current")
        if physical not in (None, self.physical):
            raise CollectionNotFoundError
        if self.current_fault is not None:
            raise self.current_fault
        return {
            document: DocumentLabel(source=f"{document.hex[:4]}.txt", title="Title", media_type="text/plain")
            for document, generation in generations
            if self.served.get(document) == generation
        }


@dataclass
class FakeStore:
    """Gives the first ``limit`` of its hits, whatever is asked."""

    hits: list[Hit] = field(default_factory=list)
    capabilities: Capabilities = field(
        default_factory=lambda: Capabilities(features=frozenset({Feature.LEXICAL, Feature.EXACT}))
    )
    fault: BaseException | None = None
    delay: float = 0.0
    kind: str = "fake"
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def search(self, collection: str, scope: Scope, vector: Any, **options: Any) -> list[Hit]:
        return await self._answer("search", {"collection": collection, "vector": vector, **options})

    async def lexical_search(self, collection: str, scope: Scope, terms: Any, **options: Any) -> list[Hit]:
        return await self._answer("lexical_search", {"collection": collection, "terms": terms, **options})

    async def hybrid_search(self, collection: str, scope: Scope, vector: Any, terms: Any, **options: Any) -> list[Hit]:
        return await self._answer("hybrid_search", {"vector": vector, "terms": terms, **options})

    async def _answer(self, name: str, options: dict[str, Any]) -> list[Hit]:
        self.calls.append((name, options))
        await asyncio.sleep(self.delay)
        if self.fault is not None:
            raise self.fault
        return self.hits[: options["limit"]]


@dataclass
class FakeEmbedder:
    model: str = "embedder"
    dimension: int = 4
    fault: BaseException | None = None
    delay: float = 0.0
    value: float = 0.5
    calls: int = 0
    cancelled: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def embed(self, texts: Sequence[str], **_: Any) -> Vectors:
        self.calls += 1
        self.begun.set()
        try:
            await asyncio.sleep(self.delay)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.fault is not None:
            raise self.fault
        return np.full((len(texts), self.dimension), self.value, dtype=np.float32)


@dataclass
class FakeReranker:
    """Turns the order round."""

    languages: frozenset[str] = frozenset({"*"})
    fault: BaseException | None = None
    delay: float = 0.0
    drop: int = 0
    asked: list[int] = field(default_factory=list)

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        self.asked.append(len(hits))
        await asyncio.sleep(self.delay)
        if self.fault is not None:
            raise self.fault
        ranked = [replace(hit, score=1.0 - place / 100, rerank_score=0.5) for place, hit in enumerate(reversed(hits))]
        return ranked[self.drop :]


@dataclass
class FakeGenerator:
    """Says its deltas; ``fault_after`` deltas it fails or, with ``hang``, stops saying anything."""

    deltas: Sequence[str] = ()
    languages: frozenset[str] = frozenset({"*"})
    context_tokens: int = 2048
    model: str = "generator"
    fault: BaseException | None = None
    hang: bool = False
    prompts: list[list[Message]] = field(default_factory=list)
    max_tokens: int = 0
    closed: int = 0

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) + 1 for text in texts]

    async def stream(self, messages: Sequence[Message], *, max_tokens: int, temperature: float) -> AsyncIterator[Delta]:
        self.prompts.append(list(messages))
        self.max_tokens = max_tokens
        try:
            for delta in self.deltas:
                await asyncio.sleep(0)
                yield Delta(text=delta)
            if self.hang:
                await asyncio.Event().wait()
            if self.fault is not None:
                raise self.fault
            yield Delta(text="", finish_reason="stop", usage=Usage(prompt_tokens=30, completion_tokens=5))
        finally:
            self.closed += 1

    async def ping(self) -> None:
        return


def serving(*hits: Hit, **options: Any) -> tuple[FakeCorpus, FakeStore]:
    """A corpus and a store that agree on ``hits``."""
    corpus = FakeCorpus(served={hit.document: hit.generation for hit in hits}, **options)
    return corpus, FakeStore(hits=list(hits))


def make_pipeline(
    corpus: FakeCorpus,
    store: FakeStore,
    *,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    generator: FakeGenerator | None = None,
    **options: Any,
) -> QueryPipeline:
    return QueryPipeline(
        corpus,
        store,  # type: ignore[arg-type]
        embedder or FakeEmbedder(),
        reranker,
        generator,
        options=QueryOptions(**options),
    )


def ask(query: str = "What is in the text?", **options: Any) -> SearchRequest:
    return SearchRequest(**{"scope": SCOPE, "collection": "books", "query": query, **options})


def soon(seconds: float = 30.0) -> Deadline:
    return Deadline.after(seconds)
