"""One search, stage by stage, with ports in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rag.core.errors import (
    CatalogError,
    CollectionNotFoundError,
    DeadlineExceededError,
    DegradedError,
    EmbeddingError,
    FilterError,
    InvalidRequestError,
    ModelMismatchError,
    OverloadedError,
    RerankError,
    StoreError,
)
from rag.core.filters import Compare
from rag.core.records import Capabilities, Feature
from rag.core.types import FieldType, Mode
from rag.lexical import count_terms
from tests.unit.rag.query.fakes import (
    FakeCorpus,
    FakeEmbedder,
    FakeReranker,
    FakeStore,
    ask,
    make_hit,
    make_hits,
    make_pipeline,
    serving,
    soon,
)


async def test_a_search_takes_one_round_trip_each_to_catalog_store_and_verification() -> None:
    corpus, store = serving(*make_hits(60))
    pipeline = make_pipeline(corpus, store, reranker=FakeReranker())

    result = await pipeline.search(ask(limit=10), soon())

    assert corpus.calls == ["collection", "current"]
    assert [name for name, _ in store.calls] == ["hybrid_search"]
    assert len(result.hits) == 10
    assert (result.degraded, result.skipped, result.shortfall, result.epoch) == ((), (), False, 7)
    assert {"catalog", "embed", "retrieve", "verify", "rerank", "search"} <= set(result.timings)


@pytest.mark.parametrize(
    "query", ["", "   \n\t ", "x" * 8193, "a\0b", "\ud800"], ids=["empty", "blank", "long", "nul", "surrogate"]
)
async def test_a_query_that_is_no_text_is_refused_before_anything_is_asked(query: str) -> None:
    corpus, store = serving()

    with pytest.raises(InvalidRequestError):
        await make_pipeline(corpus, store).search(ask(query), soon())

    assert corpus.calls == []


@pytest.mark.parametrize("limit", [0, -1, 201])
async def test_a_limit_outside_its_range_is_refused(limit: int) -> None:
    corpus, store = serving()

    with pytest.raises(InvalidRequestError, match="limit"):
        await make_pipeline(corpus, store).search(ask(limit=limit), soon())


async def test_a_query_of_exactly_the_longest_length_is_served() -> None:
    corpus, store = serving(make_hit("a"))

    result = await make_pipeline(corpus, store).search(ask("词" * 8192), soon())

    assert len(result.hits) == 1


async def test_an_unknown_collection_is_said_so_and_the_embedding_is_cancelled() -> None:
    corpus, store = serving()
    embedder = FakeEmbedder(delay=60)

    with pytest.raises(CollectionNotFoundError):
        await make_pipeline(corpus, FakeStore(), embedder=embedder).search(ask(collection="none"), soon())

    assert embedder.cancelled == embedder.calls
    assert store.calls == []


async def test_another_embedding_model_is_a_conflict_that_names_both() -> None:
    corpus, store = serving(make_hit("a"), model="old-model")

    with pytest.raises(ModelMismatchError, match=r"old-model.*embedder"):
        await make_pipeline(corpus, store).search(ask(mode=Mode.LEXICAL), soon())


async def test_filters_are_read_against_the_declared_fields() -> None:
    corpus, store = serving(make_hit("a"), filterable={"year": FieldType.INTEGER})
    pipeline = make_pipeline(corpus, store)

    await pipeline.search(ask(filter={"type": "gt", "key": "year", "value": 2000}), soon())

    assert store.calls[0][1]["filter"] == Compare(operator="gt", key="year", value=2000)
    with pytest.raises(FilterError, match="colour"):
        await pipeline.search(ask(filter={"type": "eq", "key": "colour", "value": "red"}), soon())


@pytest.mark.parametrize(
    ("mode", "method"), [("dense", "search"), ("lexical", "lexical_search"), ("hybrid", "hybrid_search")]
)
async def test_each_mode_asks_the_store_its_own_question(mode: str, method: str) -> None:
    corpus, store = serving(make_hit("a"))
    embedder = FakeEmbedder()

    await make_pipeline(corpus, store, embedder=embedder).search(ask(mode=Mode(mode)), soon())

    assert [name for name, _ in store.calls] == [method]
    assert embedder.calls == (0 if mode == "lexical" else 1)


async def test_query_terms_that_no_chunk_holds_are_left_out() -> None:
    known = next(iter(count_terms("orchard").counts))
    corpus, store = serving(make_hit("a"), counts={known: 2})

    await make_pipeline(corpus, store).search(ask("orchard zeppelin", mode=Mode.LEXICAL), soon())

    assert set(store.calls[0][1]["terms"]) == {known}


async def test_a_store_without_lexical_search_is_asked_by_vector_and_that_is_said() -> None:
    corpus, store = serving(make_hit("a"))
    store.capabilities = Capabilities(features=frozenset({Feature.EXACT}), reasons={Feature.LEXICAL: "no words"})

    result = await make_pipeline(corpus, store).search(ask(rerank=False), soon())

    assert [name for name, _ in store.calls] == ["search"]
    (skip,) = result.skipped
    assert (skip.stage, skip.reason) == ("lexical", "no words")


async def test_hits_of_deleted_and_replaced_documents_are_never_served() -> None:
    old, new, gone = make_hit("a", generation=1), make_hit("a", generation=2), make_hit("b")
    corpus = FakeCorpus(served={new.document: 2})
    store = FakeStore(hits=[old, gone, new])

    result = await make_pipeline(corpus, store).search(ask(limit=1), soon())

    assert [hit.id for hit in result.hits] == [new.id]


async def test_a_generation_that_is_not_yet_published_does_not_hide_the_served_one() -> None:
    served, coming = make_hit("a", generation=1), make_hit("a", generation=2)
    corpus = FakeCorpus(served={served.document: 1})

    result = await make_pipeline(corpus, FakeStore(hits=[coming, served])).search(ask(), soon())

    assert [hit.id for hit in result.hits] == [served.id]
    assert result.shortfall


async def test_deletes_that_crowd_the_top_are_looked_past() -> None:
    deleted, kept = make_hits(150, prefix="gone"), make_hits(20, prefix="kept")
    corpus, _ = serving(*kept)
    store = FakeStore(hits=deleted + kept)

    result = await make_pipeline(corpus, store, candidates=50).search(ask(limit=10), soon())

    assert [hit.id for hit in result.hits] == [hit.id for hit in kept[:10]]
    assert [options["limit"] for _, options in store.calls] == [50, 100, 200]
    assert not result.shortfall


@pytest.mark.parametrize(
    ("options", "page"),
    [
        ({"mode": Mode.DENSE, "rerank": False}, 15),
        ({"mode": Mode.LEXICAL, "rerank": False}, 15),
        ({"mode": Mode.HYBRID, "rerank": False}, 50),
        ({"mode": Mode.DENSE, "rerank": True}, 50),
    ],
    ids=str,
)
async def test_only_fusion_and_reranking_look_further_down_than_what_they_return(
    options: dict[str, Any], page: int
) -> None:
    corpus, store = serving(*make_hits(60))

    await make_pipeline(corpus, store, reranker=FakeReranker()).search(ask(limit=10, **options), soon())

    assert [asked["limit"] for _, asked in store.calls] == [page]


async def test_a_short_page_that_deletes_crowd_is_followed_by_a_long_one() -> None:
    deleted, kept = make_hits(15, prefix="gone"), make_hits(20, prefix="kept")
    corpus, _ = serving(*kept)
    store = FakeStore(hits=deleted + kept)

    result = await make_pipeline(corpus, store).search(ask(limit=10, mode=Mode.DENSE), soon())

    assert [hit.id for hit in result.hits] == [hit.id for hit in kept[:10]]
    assert [options["limit"] for _, options in store.calls] == [15, 50]


async def test_fewer_hits_than_asked_for_are_a_shortfall() -> None:
    corpus, _ = serving(make_hit("kept"))
    store = FakeStore(hits=[make_hit("gone"), make_hit("kept")])

    result = await make_pipeline(corpus, store).search(ask(limit=2), soon())

    assert len(result.hits) == 1
    assert result.shortfall
    assert len(store.calls) == 1


async def test_the_page_grows_to_its_cap_and_no_further() -> None:
    store = FakeStore(hits=make_hits(500))

    result = await make_pipeline(FakeCorpus(), store, candidates=10, max_candidates=45).search(ask(limit=5), soon())

    assert [options["limit"] for _, options in store.calls] == [10, 20, 40, 45]
    assert (result.hits, result.shortfall) == ((), True)


async def test_labels_are_given_for_the_hits_and_nothing_else() -> None:
    corpus, store = serving(*make_hits(5))

    result = await make_pipeline(corpus, store).search(ask(limit=2), soon())

    assert set(result.documents) == {hit.document for hit in result.hits}


async def test_only_the_top_is_reranked_and_scores_never_rise() -> None:
    corpus, store = serving(*make_hits(30))
    reranker = FakeReranker()

    result = await make_pipeline(corpus, store, reranker=reranker, rerank_depth=4).search(ask(limit=10), soon())

    assert reranker.asked == [4]
    assert [hit.id for hit in result.hits] == [store.hits[place].id for place in (3, 2, 1, 0, 4, 5, 6, 7, 8, 9)]
    scores = [hit.score for hit in result.hits]
    assert scores == sorted(scores, reverse=True)
    assert result.hits[0].retrieval_score == store.hits[3].score


async def test_without_rerank_the_reranker_is_not_asked() -> None:
    corpus, store = serving(*make_hits(3))
    reranker = FakeReranker()

    result = await make_pipeline(corpus, store, reranker=reranker).search(ask(rerank=False), soon())

    assert reranker.asked == []
    assert result.skipped == ()


@pytest.mark.parametrize(
    ("query", "languages", "skipped"),
    [
        ("苹果树是谁种的？", {"en"}, "language: zh"),
        ("苹果树是谁种的？", {"zh"}, None),
        ("Who planted it?", {"en"}, None),
        ("Кто посадил?", {"*"}, None),
        ("42 + 1", {"en"}, None),
    ],
)
async def test_a_reranker_without_the_language_of_the_query_is_skipped(
    query: str, languages: set[str], skipped: str | None
) -> None:
    corpus, store = serving(*make_hits(3))
    reranker = FakeReranker(languages=frozenset(languages))

    result = await make_pipeline(corpus, store, reranker=reranker).search(ask(query), soon())

    assert [skip.reason for skip in result.skipped] == ([skipped] if skipped else [])
    assert bool(reranker.asked) is (skipped is None)
    assert result.degraded == ()


@pytest.mark.parametrize(
    "embedder",
    [
        FakeEmbedder(fault=EmbeddingError()),
        FakeEmbedder(fault=OverloadedError()),
        FakeEmbedder(delay=60),
        FakeEmbedder(value=float("nan")),
    ],
    ids=["down", "full", "late", "nan"],
)
async def test_an_embedder_that_fails_leaves_the_lexical_side(embedder: FakeEmbedder) -> None:
    corpus, store = serving(*make_hits(3))
    pipeline = make_pipeline(corpus, store, embedder=embedder, embedding_timeout=0.05)

    result = await pipeline.search(ask(mode=Mode.DENSE), soon())

    assert [name for name, _ in store.calls] == ["lexical_search"]
    assert result.degraded == ("embedding",)
    assert len(result.hits) == 3


async def test_the_deadline_leaves_time_for_the_fallback_of_a_late_embedder() -> None:
    corpus, store = serving(*make_hits(3))

    result = await make_pipeline(corpus, store, embedder=FakeEmbedder(delay=60)).search(ask(), soon(0.6))

    assert result.degraded == ("embedding",)
    assert len(result.hits) == 3


async def test_without_embedder_and_lexical_search_there_is_no_result() -> None:
    corpus, store = serving(*make_hits(3))
    store.capabilities = Capabilities(features=frozenset())

    with pytest.raises(EmbeddingError):
        await make_pipeline(corpus, store, embedder=FakeEmbedder(fault=EmbeddingError())).search(ask(), soon())


@pytest.mark.parametrize(
    "reranker",
    [FakeReranker(fault=RerankError()), FakeReranker(delay=60), FakeReranker(drop=1)],
    ids=["down", "late", "malformed"],
)
async def test_a_reranker_that_fails_leaves_the_retrieval_order(reranker: FakeReranker) -> None:
    corpus, store = serving(*make_hits(3))

    result = await make_pipeline(corpus, store, reranker=reranker, rerank_timeout=0.05).search(ask(), soon())

    assert result.degraded == ("rerank",)
    assert [hit.id for hit in result.hits] == [hit.id for hit in store.hits]


async def test_strict_refuses_what_would_be_degraded() -> None:
    corpus, store = serving(*make_hits(3))
    failing = FakeReranker(fault=RerankError())

    with pytest.raises(DegradedError, match="rerank"):
        await make_pipeline(corpus, store, reranker=failing).search(ask(strict=True), soon())
    with pytest.raises(DegradedError, match="embedding"):
        await make_pipeline(corpus, store, embedder=FakeEmbedder(fault=EmbeddingError())).search(
            ask(strict=True), soon()
        )


async def test_a_store_or_catalog_that_is_down_is_an_error_and_never_an_empty_result() -> None:
    corpus, store = serving(*make_hits(3))
    store.fault = StoreError()

    with pytest.raises(StoreError):
        await make_pipeline(corpus, store).search(ask(), soon())
    with pytest.raises(CatalogError):
        await make_pipeline(FakeCorpus(fault=CatalogError()), FakeStore()).search(ask(), soon())
    store.fault, corpus.current_fault = None, CatalogError()
    with pytest.raises(CatalogError):
        await make_pipeline(corpus, store).search(ask(), soon())


async def test_a_store_or_catalog_that_hangs_is_an_error_within_the_deadline() -> None:
    corpus, store = serving(*make_hits(3))
    store.delay = 60

    with pytest.raises(StoreError, match="in time"):
        await make_pipeline(corpus, store).search(ask(), soon(1.5))
    with pytest.raises(CatalogError, match="in time"):
        await make_pipeline(FakeCorpus(delay=60), FakeStore()).search(ask(), soon(1.5))


async def test_a_deadline_too_short_for_a_store_or_catalog_is_said_so_rather_than_blamed_on_them() -> None:
    corpus, store = serving(*make_hits(3))
    store.delay = 60

    with pytest.raises(DeadlineExceededError):
        await make_pipeline(corpus, store).search(ask(), soon(0.1))
    with pytest.raises(DeadlineExceededError):
        await make_pipeline(FakeCorpus(delay=60), FakeStore()).search(ask(), soon(0.001))


async def test_a_deadline_that_has_passed_is_said_so() -> None:
    corpus, store = serving(*make_hits(3))

    with pytest.raises(DeadlineExceededError):
        await make_pipeline(corpus, store).search(ask(), soon(0))

    assert store.calls == []


async def test_a_cancelled_search_takes_its_embedding_with_it() -> None:
    corpus, store = serving(*make_hits(3))
    embedder = FakeEmbedder(delay=60)
    search = asyncio.ensure_future(make_pipeline(corpus, store, embedder=embedder).search(ask(), soon()))
    await embedder.begun.wait()

    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search

    assert embedder.cancelled == 1
