"""What a store promises of searches: the exact store's answer, or nearly so where an index approximates."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from rag.core.filters import Compare, In
from rag.core.ports import VectorStore
from rag.core.records import Metric, Record, SearchParams
from rag.core.types import Scope, Terms
from stores.testing.calls import SEARCHES, offered
from stores.testing.engine import Conformance, Make
from stores.testing.records import (
    DIMENSION,
    SCOPE,
    assert_same_ranking,
    clustered,
    oracle,
    record,
    records,
    spec_of,
    vector,
    write,
)

EXACT = SearchParams(exact=True)
MANY = 2000


def scattered(count: int, *, dimension: int, seed: int = 0) -> list[Record]:
    """Clustered records, one in a thousand of the year 1, with the terms of a skewed vocabulary."""
    rows = clustered(count, dimension=dimension, seed=seed)
    return [
        record(number, vector=rows[number], terms=_skewed_terms(number), metadata={"year": number % 1000})
        for number in range(count)
    ]


def _skewed_terms(number: int) -> Terms:
    rng = np.random.default_rng(number)
    return {
        int(term) % 3000: float(weight) for term, weight in zip(rng.zipf(1.3, 12), rng.random(12) + 0.1, strict=True)
    }


class SearchConformance(Conformance):
    """Search."""

    @pytest.mark.usefixtures("exact")
    @pytest.mark.parametrize("metric", Metric)
    async def test_an_exact_search_gives_the_exact_stores_answer(
        self, store: VectorStore, make_collection: Make, metric: Metric
    ) -> None:
        spec = spec_of(metric=metric)
        name = await make_collection(records(60), spec)
        memory = await oracle(records(60), spec)

        for number in range(5):
            query = record(1000 + number).vector
            found = await store.search(name, SCOPE, query, limit=10, params=EXACT)
            assert_same_ranking(found, await memory.search("oracle", SCOPE, query, limit=10))

    async def test_a_hit_carries_all_that_a_reader_is_told(self, store: VectorStore, make_collection: Make) -> None:
        row = record(3, page=4, headings=("Part", "Section"), metadata={"year": 2026, "tags": ["a"], "free": "x"})
        name = await make_collection([row])

        for case, search in offered(store, SEARCHES).items():
            (hit,) = await search(store, name, limit=1)
            assert (hit.id, hit.document, hit.generation, hit.index) == (row.id, row.document, 1, 3), case
            assert (hit.text, hit.start, hit.end, hit.page) == (row.text, row.start, row.end, 4), case
            assert (hit.headings, hit.quality, hit.metadata) == (row.headings, row.quality, row.metadata), case

    async def test_a_cosine_score_stays_within_one(self, store: VectorStore, make_collection: Make) -> None:
        rows = [record(i, vector=vector(*(0.1 * sign * (i + 1),) * 3)) for i, sign in enumerate((1, -1, 1, -1))]
        name = await make_collection(rows)

        scores = [hit.score for hit in await store.search(name, SCOPE, vector(3, 3, 3), limit=4)]

        assert scores == pytest.approx([1, 1, -1, -1], abs=1e-6)
        assert all(-1.0 <= score <= 1.0 for score in scores)

    async def test_equal_scores_are_ordered_by_id(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection([record(i, vector=vector(1, 1), terms={7: 0.5}) for i in range(20)])
        ordered = sorted(record(i).id for i in range(20))

        for case, search in offered(store, SEARCHES).items():
            assert [hit.id for hit in await search(store, name, limit=7)] == ordered[:7], case

    async def test_as_many_hits_come_as_were_asked_for(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection(records(1100))

        for limit in (1, 99, 101, 1001, 2000):
            for case, search in offered(store, SEARCHES).items():
                assert len(await search(store, name, limit=limit)) == min(limit, 1100), (case, limit)

    async def test_many_searches_at_once_give_what_each_gives_alone(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection([record(i, metadata={"year": i % 2}) for i in range(60)])
        odd = Compare(operator="eq", key="year", value=1)
        queries = np.stack([record(1000 + i).vector for i in range(12)])

        for filter in (None, odd):
            for params in (SearchParams(), EXACT):
                many = await store.search_many(name, SCOPE, queries, limit=7, filter=filter, params=params)
                assert len(many) == len(queries)
                for query, found in zip(queries, many, strict=True):
                    alone = await store.search(name, SCOPE, query, limit=7, filter=filter, params=params)
                    assert_same_ranking(found, alone, tolerance=1e-5)
                    assert [(hit.text, hit.metadata) for hit in found] == [(hit.text, hit.metadata) for hit in alone]

    async def test_many_searches_of_none_are_none(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection(records(1))

        assert await store.search_many(name, SCOPE, np.empty((0, DIMENSION), np.float32), limit=1) == []

    async def test_the_index_recalls_nearly_all_and_a_rare_filter_still_fills_the_limit(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        spec, rows = spec_of(dimension=32), scattered(MANY, dimension=32)
        name, memory = await make_collection(rows, spec), await oracle(rows, spec)
        await store.wait_indexed(name, timeout=60.0)
        rare = In(key="year", values=(1, 2))
        recalled = 0

        for query in clustered(20, dimension=32, seed=1):
            expected = await memory.search("oracle", SCOPE, query, limit=10)
            found = await store.search(name, SCOPE, query, limit=10)
            recalled += sum(hit.score >= expected[-1].score - 1e-5 for hit in found)
            few = await store.search(name, SCOPE, query, limit=4, filter=rare)
            assert_same_ranking(few, await memory.search("oracle", SCOPE, query, limit=4, filter=rare))

        assert recalled >= 0.95 * 200

    @pytest.mark.usefixtures("lexical")
    async def test_lexical_search_gives_the_exact_stores_answer(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        rows = scattered(500, dimension=DIMENSION)
        name, memory = await make_collection(rows), await oracle(rows)
        recent = Compare(operator="gte", key="year", value=400)

        for number in range(20):
            query = {term: 1.0 / (1 + number % 3 + term) for term in _skewed_terms(5000 + number)} | {2999: 9.0}
            for filter in (None, recent):
                found = await store.lexical_search(name, SCOPE, query, limit=10, filter=filter)
                expected = await memory.lexical_search("oracle", SCOPE, query, limit=10, filter=filter)
                assert_same_ranking(found, expected, tolerance=1e-5)

    @pytest.mark.usefixtures("lexical")
    async def test_common_terms_count_when_the_rare_ones_match_too_little(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        rows = [
            record(0, terms={1: 0.1, 2: 0.1}),
            record(1, terms={2: 50.0}),
            *(record(i, terms={2: 1.0, 3: 1.0}) for i in range(2, 6)),
        ]
        name = await make_collection(rows)

        hits = await store.lexical_search(name, SCOPE, {1: 10.0, 2: 1.0, 4: 5.0}, limit=2)

        assert [(hit.index, hit.score) for hit in hits] == [(1, 50.0), (0, pytest.approx(1.1))]

    @pytest.mark.usefixtures("lexical")
    async def test_records_that_share_no_term_are_no_lexical_hits(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection([*records(3), record(8, terms={}), record(9, terms={2**32 - 1: 1.0})])

        assert await store.lexical_search(name, SCOPE, {4: 1.0}, limit=5) == []
        assert await store.lexical_search(name, SCOPE, {}, limit=5) == []
        assert len(await store.lexical_search(name, SCOPE, {2**32 - 1: 1.0}, limit=5)) == 1

    @pytest.mark.usefixtures("lexical")
    async def test_a_record_written_again_with_fewer_terms_is_found_by_those_only(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection([record(0, terms={1: 1.0, 2: 1.0})])

        await write(store, name, [record(0, terms={2: 1.0})])

        assert await store.lexical_search(name, SCOPE, {1: 1.0}, limit=5) == []
        assert len(await store.lexical_search(name, SCOPE, {2: 1.0}, limit=5)) == 1

    @pytest.mark.usefixtures("lexical", "exact")
    async def test_hybrid_search_gives_the_exact_stores_answer(self, store: VectorStore, make_collection: Make) -> None:
        rows = scattered(400, dimension=DIMENSION)
        name, memory = await make_collection(rows), await oracle(rows)

        for number in range(10):
            query, terms = record(1000 + number).vector, _skewed_terms(5000 + number)
            found = await store.hybrid_search(name, SCOPE, query, terms, limit=10, params=EXACT)
            expected = await memory.hybrid_search("oracle", SCOPE, query, terms, limit=10)
            assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected])

    @pytest.mark.usefixtures("lexical")
    async def test_hybrid_search_finds_what_only_a_word_matches(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        near = [record(i, vector=vector(1, 0.001 * i), terms={7: 1.0}) for i in range(120)]
        far = record(500, vector=vector(-1), terms={4_000_000_000: 1.0})
        name = await make_collection([*near, far])

        hits = await store.hybrid_search(name, SCOPE, vector(1), {4_000_000_000: 1.0}, limit=5)

        assert far.id in {hit.id for hit in hits}
        assert len(hits) == 5

    @pytest.mark.usefixtures("lexical")
    @pytest.mark.parametrize("terms", [{}, {123_456: 1.0}])
    async def test_a_leg_that_finds_nothing_leaves_the_other(
        self, store: VectorStore, make_collection: Make, terms: Terms
    ) -> None:
        name = await make_collection(records(9))

        hits = await store.hybrid_search(name, SCOPE, record(4).vector, terms, limit=3)

        assert hits[0].id == record(4).id
        assert hits[0].score == pytest.approx(1 / 61)
        assert len(hits) == 3

    async def test_an_empty_collection_has_no_hits(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection()

        for case, search in offered(store, SEARCHES).items():
            assert await search(store, name) == [], case

    async def test_a_cancelled_call_leaves_the_store_usable(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection(records(200))

        for pause in np.linspace(0.0, 0.02, 30):
            calls = [
                asyncio.create_task(store.search(name, SCOPE, vector(1), limit=150)),
                asyncio.create_task(write(store, name, records(20, document="other"))),
            ]
            await asyncio.sleep(pause)
            for call in calls:
                call.cancel()
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                assert outcome is None or isinstance(outcome, list | asyncio.CancelledError)

        assert len(await store.search(name, SCOPE, vector(1), limit=150)) == 150
        assert await store.count(name, SCOPE) in (200, 220)

    async def test_searches_and_writes_at_once_see_whole_batches(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection(records(20))
        seen: list[int] = []

        async def read() -> None:
            for _ in range(10):
                seen.append(await store.count(name, SCOPE))
                for search in offered(store, SEARCHES).values():
                    assert len(await search(store, name)) == 5

        async with asyncio.TaskGroup() as group:
            for writer in range(4):
                group.create_task(write(store, name, records(20, document=f"document {writer % 3}")))
            group.create_task(read())
            group.create_task(read())

        assert await store.count(name, SCOPE) == 80
        assert all(count % 20 == 0 for count in seen)

    async def test_a_search_that_starts_after_a_write_sees_it(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection()

        for number in range(10):
            await write(store, name, [record(number)])
            (first, *_) = await store.search(name, Scope(tenant=SCOPE.tenant), record(number).vector, limit=1)
            assert first.id == record(number).id
