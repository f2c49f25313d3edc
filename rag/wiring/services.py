"""All parts of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rag.query import QueryOptions, QueryPipeline
from rag.services import Services
from rag.settings import Settings
from rag.wiring.breakers import guarded_embedder, guarded_reranker
from rag.wiring.generation import open_generator_for
from rag.wiring.models import open_models
from rag.wiring.storage import open_storage


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Everything the API needs. Models load after this has opened; their calls wait for them."""
    async with (
        open_storage(settings) as storage,
        open_models(settings) as models,
        open_generator_for(settings) as generator,
    ):
        yield Services(
            catalog=storage.catalog,
            blobs=storage.blobs,
            store=storage.store,
            embedder=models.embedder,
            pipeline=QueryPipeline(
                storage.catalog,
                storage.store,
                guarded_embedder(models, settings),
                guarded_reranker(models, settings),
                generator,
                options=_query_options(settings),
            ),
            scorer=models.scorer,
            reranker=models.reranker,
            generator=generator,
        )


def _query_options(settings: Settings) -> QueryOptions:
    return QueryOptions(
        max_limit=settings.search.max_limit,
        max_query_characters=settings.search.max_query_characters,
        candidates=settings.search.candidates,
        ef_search=settings.store.ef_search,
        rerank_depth=settings.rerank.depth,
        embedding_timeout=settings.embedding.timeout,
        rerank_timeout=settings.rerank.timeout,
        search_deadline=settings.search.deadline,
        max_tokens=settings.generation.max_tokens,
        temperature=settings.generation.temperature,
    )
