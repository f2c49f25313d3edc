"""What a search asks of the catalog is one round trip each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from rag.catalog import Catalog
from rag.core.errors import CollectionNotFoundError
from rag.core.ports import Corpus, IngestCatalog
from rag.core.types import Scope


async def test_collection_and_current_take_one_round_trip_each(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any], round_trips: Any
) -> None:
    document = (await upload("a.txt")).document.id
    generation = await publish(document)
    asked = [(document, generation), *((uuid4(), number) for number in range(200))]
    physical = (await catalog.collection(scope, "papers")).physical
    for _ in range(20):  # each connection of the pool prepares a statement at its first use
        await catalog.collection(scope, "papers", terms=[1])
        await catalog.current(scope, asked)
        await catalog.current(scope, asked, physical=physical)

    round_trips.count = 0
    await catalog.collection(scope, "papers", terms=range(64))
    after_collection = round_trips.count
    await catalog.current(scope, asked)
    after_current = round_trips.count
    await catalog.current(scope, asked, physical=physical)

    assert (after_collection, after_current, round_trips.count) == (1, 2, 3)


async def test_what_is_current_is_told_only_while_the_collection_lives_where_it_was_known_to(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    document = (await upload("a.txt")).document.id
    asked = [(document, await publish(document))]
    physical = (await catalog.collection(scope, "papers")).physical

    assert set(await catalog.current(scope, asked, physical=physical)) == {document}
    assert await catalog.current(scope, [], physical=physical) == {}
    for elsewhere in (scope, Scope(tenant="rival")):
        with pytest.raises(CollectionNotFoundError):
            await catalog.current(elsewhere, asked, physical=physical if elsewhere != scope else "c_other")
    await catalog.delete_collection(scope, "papers")
    with pytest.raises(CollectionNotFoundError):
        await catalog.current(scope, asked, physical=physical)


async def test_nothing_is_asked_for_no_hits(catalog: Catalog, scope: Scope, round_trips: Any) -> None:
    round_trips.count = 0

    assert await catalog.current(scope, []) == {}
    assert round_trips.count == 0


async def test_the_catalog_is_the_corpus_and_the_ingest_catalog(catalog: Catalog) -> None:
    corpus: Corpus = catalog
    ingest: IngestCatalog = catalog

    assert corpus is ingest
