"""What a store says that it offers: true where it says yes, refused with the reason where it says no."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rag.core.errors import CollectionNotFoundError, InvalidRequestError
from rag.core.ports import VectorStore
from rag.core.records import ByIds, Feature, Quantization
from rag.core.types import Scope
from stores.testing.calls import NEEDS_LEXICAL, SEARCHES
from stores.testing.engine import Conformance, Make
from stores.testing.records import SCOPE, assert_refused, clustered, oracle, record, records, spec_of, vector, write

SCORE_TOLERANCE = {Quantization.HALF: 0.01, Quantization.INT8: 0.05}
"""How far a cosine of quantized vectors may lie from the exact one."""


class CapabilityConformance(Conformance):
    """What is offered."""

    async def test_each_feature_and_quantization_is_offered_or_has_its_reason(
        self, store: VectorStore, record_property: Callable[[str, object], None]
    ) -> None:
        offers = store.capabilities
        record_property("kind", store.kind)
        record_property("max_dimension", offers.max_dimension)
        record_property("offered", sorted([*offers.features, *offers.quantizations]))
        record_property("reasons", {str(name): reason for name, reason in offers.reasons.items()})

        missing = {*Feature, *Quantization} - offers.features - offers.quantizations

        assert missing == set(offers.reasons)
        assert all(reason.strip() for reason in offers.reasons.values())
        assert Quantization.NONE in offers.quantizations

    async def test_a_search_that_is_not_offered_is_refused_with_its_reason(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        reason = store.capabilities.reasons.get(Feature.LEXICAL)
        name = await make_collection(records(1))

        for call in NEEDS_LEXICAL if reason else ():
            refused = await assert_refused(SEARCHES[call](store, name), InvalidRequestError, call)
            assert str(reason) in refused.message

    async def test_a_dimension_out_of_range_is_refused_and_nothing_is_created(self, store: VectorStore) -> None:
        for dimension in (-1, 0, store.capabilities.max_dimension + 1):
            spec = spec_of(dimension=dimension)
            await assert_refused(store.create_collection("never_created", spec), InvalidRequestError, dimension)
            await assert_refused(store.describe_collection("never_created"), CollectionNotFoundError, dimension)

    async def test_a_vector_of_the_greatest_dimension_is_kept_and_found(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        dimension = store.capabilities.max_dimension
        long = clustered(3, dimension=dimension)
        name = await make_collection([record(i, vector=long[i]) for i in range(3)], spec_of(dimension=dimension))

        (hit,) = await store.search(name, SCOPE, long[1], limit=1)
        (kept,) = await store.get(name, SCOPE, [hit.id])

        assert hit.index == 1
        assert np.array_equal(kept.vector, long[1])

    async def test_a_quantization_that_is_not_offered_is_refused_with_its_reason_and_nothing_is_created(
        self, store: VectorStore
    ) -> None:
        for quantization in sorted(set(Quantization) - store.capabilities.quantizations):
            spec = spec_of(quantization=quantization)
            refused = await assert_refused(
                store.create_collection("never_created", spec), InvalidRequestError, quantization
            )
            assert store.capabilities.reasons[quantization] in refused.message
            await assert_refused(store.describe_collection("never_created"), CollectionNotFoundError, quantization)

    @pytest.mark.parametrize("quantization", sorted(SCORE_TOLERANCE))
    async def test_a_search_over_quantized_vectors_is_nearly_exact(
        self, store: VectorStore, make_collection: Make, quantization: Quantization
    ) -> None:
        if reason := store.capabilities.reasons.get(quantization):
            pytest.skip(f"not offered: {reason}")
        spec, vectors = spec_of(dimension=64, quantization=quantization), clustered(400, dimension=64)
        rows = [record(i, vector=vectors[i]) for i in range(len(vectors))]
        name, memory = await make_collection(rows, spec), await oracle(rows, spec_of(dimension=64))
        await store.wait_indexed(name, timeout=60.0)
        recalled = 0

        assert await store.describe_collection(name) == spec
        for query in clustered(20, dimension=64, seed=1):
            found = await store.search(name, SCOPE, query, limit=10)
            every = await memory.search("oracle", SCOPE, query, limit=len(rows))
            exact = {hit.id: hit.score for hit in every}
            assert all(abs(hit.score - exact[hit.id]) <= SCORE_TOLERANCE[quantization] for hit in found)
            recalled += len({hit.id for hit in found} & {hit.id for hit in every[:10]})
        assert recalled >= 0.9 * 200

    async def test_the_store_answers_and_says_how_much_it_holds(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection([*records(7), *records(2, tenant="rival")])

        await store.ping()
        await store.wait_indexed(name, timeout=60.0)
        full = await store.stats(name)
        await store.delete(name, SCOPE, ByIds(ids=tuple(row.id for row in records(3))))
        fewer = await store.stats(name)

        assert (full.rows, fewer.rows) == (9, 6)
        assert 0 <= full.indexed <= full.rows
        assert 0 <= fewer.indexed <= fewer.rows
        assert full.bytes > 0

    @pytest.mark.usefixtures("indexed")
    async def test_the_index_is_ready_when_it_has_been_waited_for(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        vectors = clustered(1500, dimension=16)
        name = await make_collection(
            [record(i, vector=vectors[i], terms={}) for i in range(len(vectors))], spec_of(dimension=16)
        )

        await store.wait_indexed(name, timeout=120.0)

        assert (await store.stats(name)).indexed == len(vectors)
        assert len(await store.search(name, SCOPE, vectors[0], limit=10)) == 10

    async def test_what_one_client_writes_another_reads_at_once(
        self, store: VectorStore, second_store: VectorStore, make_collection: Make
    ) -> None:
        if second_store is store:
            pytest.skip("not offered: one client owns the engine")
        name = await make_collection(records(2))
        await second_store.count(name, SCOPE)

        for number in range(2, 8):
            row = record(number)
            await write(store, name, [row])
            (first, *_) = await second_store.search(name, Scope(tenant=SCOPE.tenant), row.vector, limit=1)
            assert first.id == row.id
            assert await second_store.count(name, SCOPE) == number + 1
        assert (await second_store.search(name, SCOPE, vector(1), limit=20)) == (
            await store.search(name, SCOPE, vector(1), limit=20)
        )
