"""The parts a running service is made of, as the routes see them."""

from __future__ import annotations

from dataclasses import dataclass

from rag.catalog import Catalog
from rag.core.ports import Blobs, Generator, Reranker, VectorStore
from rag.embedding.host import HostedEmbedder, HostedScorer
from rag.query import QueryPipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Open parts; whoever opened them closes them.

    ``scorer``, ``reranker`` and ``generator`` are ``None`` where none is configured.
    """

    catalog: Catalog
    blobs: Blobs
    store: VectorStore
    embedder: HostedEmbedder
    pipeline: QueryPipeline
    scorer: HostedScorer | None = None
    reranker: Reranker | None = None
    generator: Generator | None = None
