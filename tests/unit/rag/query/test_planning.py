"""A purely dense search trusts what it last knew of the collection, and verification checks it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag.core.errors import (
    CollectionLostError,
    CollectionNotFoundError,
    EmbeddingError,
    FilterError,
    ModelMismatchError,
)
from rag.core.types import FieldType, Mode
from tests.unit.rag.query.fakes import FakeEmbedder, ask, make_hit, make_pipeline, serving, soon

DENSE = ask(mode=Mode.DENSE, rerank=False)


async def test_a_second_dense_search_reads_the_collection_no_more() -> None:
    corpus, store = serving(make_hit("a"))
    pipeline = make_pipeline(corpus, store)

    first, second = [await pipeline.search(DENSE, soon()) for _ in range(2)]

    assert corpus.calls == ["collection", "current", "current"]
    assert first.hits == second.hits


@pytest.mark.parametrize("mode", [Mode.LEXICAL, Mode.HYBRID])
async def test_searches_by_words_read_the_counts_of_their_words_every_time(mode: Mode) -> None:
    corpus, store = serving(make_hit("a"))
    pipeline = make_pipeline(corpus, store)

    for _ in range(2):
        await pipeline.search(ask("orchard", mode=mode, rerank=False), soon())

    assert corpus.calls.count("collection") == 2


async def test_a_collection_that_moved_is_searched_where_it_lives_now() -> None:
    corpus, store = serving(make_hit("a"))
    pipeline = make_pipeline(corpus, store)
    await pipeline.search(DENSE, soon())

    corpus.physical = "c_moved"
    result = await pipeline.search(DENSE, soon())

    assert [options["collection"] for _, options in store.calls] == ["c_books", "c_books", "c_moved"]
    assert len(result.hits) == 1


@pytest.mark.parametrize("searched_before", [False, True])
async def test_a_collection_that_the_store_lost_is_named_with_what_heals_it(searched_before: bool) -> None:
    corpus, store = serving(make_hit("a"))
    pipeline = make_pipeline(corpus, store)
    if searched_before:
        await pipeline.search(ask(), soon())

    store.fault = CollectionNotFoundError("no collection c_books")
    with pytest.raises(CollectionLostError, match=r"'books'.*anchorage rebuild books") as caught:
        await pipeline.search(ask(), soon())

    assert (caught.value.code, caught.value.status) == ("collection_lost", 503)


async def test_a_moved_collection_is_noticed_even_where_nothing_was_found() -> None:
    corpus, store = serving(make_hit("a"))
    pipeline = make_pipeline(corpus, store)
    await pipeline.search(DENSE, soon())
    hits, store.hits = store.hits, []

    await pipeline.search(DENSE, soon())
    corpus.physical, store.hits = "c_moved", []
    await pipeline.search(DENSE, soon())

    assert hits
    assert store.calls[-1][1]["collection"] == "c_moved"


async def test_a_collection_that_was_deleted_is_not_found() -> None:
    corpus, store = serving(make_hit("a"))
    pipeline = make_pipeline(corpus, store)
    await pipeline.search(DENSE, soon())

    corpus.physical, corpus.fault = "gone", CollectionNotFoundError()

    with pytest.raises(CollectionNotFoundError):
        await pipeline.search(DENSE, soon())


async def test_tenants_with_collections_of_one_name_know_nothing_of_each_other() -> None:
    corpus, store = serving(make_hit("a"))
    pipeline = make_pipeline(corpus, store)
    await pipeline.search(DENSE, soon())

    await pipeline.search(replace(DENSE, scope=replace(DENSE.scope, tenant="rival")), soon())

    assert corpus.calls.count("collection") == 2


async def test_a_dense_search_whose_embedder_fails_is_made_by_its_words() -> None:
    corpus, store = serving(make_hit("a"))
    embedder = FakeEmbedder()
    pipeline = make_pipeline(corpus, store, embedder=embedder)
    request = ask("orchard", mode=Mode.DENSE, rerank=False)
    await pipeline.search(request, soon())

    embedder.fault = EmbeddingError()
    result = await pipeline.search(request, soon())

    assert result.degraded == ("embedding",)
    assert store.calls[-1][0] == "lexical_search"
    assert store.calls[-1][1]["terms"]


async def test_a_filter_on_a_field_that_only_the_collection_of_now_has_is_taken() -> None:
    corpus, store = serving(make_hit("a"))
    pipeline = make_pipeline(corpus, store)
    await pipeline.search(DENSE, soon())

    corpus.physical, corpus.filterable = "c_again", {"year": FieldType.INTEGER}
    await pipeline.search(replace(DENSE, filter={"type": "eq", "key": "year", "value": 2026}), soon())

    assert store.calls[-1][1]["collection"] == "c_again"
    assert store.calls[-1][1]["filter"] is not None


async def test_a_filter_that_the_collection_of_now_refuses_too_is_refused() -> None:
    corpus, store = serving(make_hit("a"))
    pipeline = make_pipeline(corpus, store)
    await pipeline.search(DENSE, soon())

    with pytest.raises(FilterError):
        await pipeline.search(replace(DENSE, filter={"type": "eq", "key": "year", "value": 2026}), soon())

    assert corpus.calls == ["collection", "current", "collection"]


async def test_a_collection_made_again_with_the_right_model_is_searched() -> None:
    corpus, store = serving(make_hit("a"))
    corpus.model = "another"
    pipeline = make_pipeline(corpus, store)
    with pytest.raises(ModelMismatchError):
        await pipeline.search(DENSE, soon())

    corpus.physical, corpus.model = "c_again", "embedder"
    result = await pipeline.search(DENSE, soon())

    assert len(result.hits) == 1


async def test_what_the_words_look_for_in_place_of_the_vector_is_planned_by_the_collection_of_now() -> None:
    corpus, store = serving(make_hit("a"))
    corpus.filterable = {"year": FieldType.STRING}
    embedder = FakeEmbedder()
    pipeline = make_pipeline(corpus, store, embedder=embedder)
    request = ask("orchard", mode=Mode.DENSE, rerank=False, filter={"type": "eq", "key": "year", "value": "2026"})
    await pipeline.search(request, soon())

    embedder.fault, corpus.filterable = EmbeddingError(), {"year": FieldType.INTEGER}

    with pytest.raises(FilterError):
        await pipeline.search(request, soon())
