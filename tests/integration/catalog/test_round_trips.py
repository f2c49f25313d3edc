"""What a search asks of the catalog is one round trip each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from rag.catalog import Catalog
from rag.core.ports import Corpus, IngestCatalog
from rag.core.types import Scope


async def test_collection_and_current_take_one_round_trip_each(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any], round_trips: Any
) -> None:
    document = (await upload("a.txt")).document.id
    generation = await publish(document)
    asked = [(document, generation), *((uuid4(), number) for number in range(200))]
    for _ in range(20):  # each connection of the pool prepares a statement at its first use
        await catalog.collection(scope, "papers", terms=[1])
        await catalog.current(scope, asked)

    round_trips.count = 0
    await catalog.collection(scope, "papers", terms=range(64))
    after_collection = round_trips.count
    await catalog.current(scope, asked)

    assert (after_collection, round_trips.count) == (1, 2)


async def test_nothing_is_asked_for_no_hits(catalog: Catalog, scope: Scope, round_trips: Any) -> None:
    round_trips.count = 0

    assert await catalog.current(scope, []) == {}
    assert round_trips.count == 0


async def test_the_catalog_is_the_corpus_and_the_ingest_catalog(catalog: Catalog) -> None:
    corpus: Corpus = catalog
    ingest: IngestCatalog = catalog

    assert corpus is ingest
