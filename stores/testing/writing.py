"""What a store promises of collections and of records written, read and deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rag.core.errors import (
    CollectionExistsError,
    CollectionNotFoundError,
    DimensionMismatchError,
    FilterError,
    InvalidRequestError,
)
from rag.core.filters import Compare, Contains
from rag.core.ports import VectorStore
from rag.core.records import ByDocument, ByIds, Metric, RecordBatch
from rag.core.types import FieldType, Quality, Scope
from stores.testing.records import (
    MOMENT,
    SCOPE,
    Conformance,
    document_of,
    record,
    records,
    same,
    spec_of,
    vector,
    write,
)

Make = Callable[..., Awaitable[str]]

EVERY_CALL: dict[str, Callable[[VectorStore, str], Awaitable[Any]]] = {
    "describe": lambda store, name: store.describe_collection(name),
    "upsert": lambda store, name: store.upsert(name, SCOPE, RecordBatch.of(records(1))),
    "update_metadata": lambda store, name: store.update_metadata(name, SCOPE, document_of("manual"), {}),
    "get": lambda store, name: store.get(name, SCOPE, [record(0).id]),
    "delete": lambda store, name: store.delete(name, SCOPE, ByIds(ids=(record(0).id,))),
    "count": lambda store, name: store.count(name, SCOPE),
    "scroll": lambda store, name: anext(aiter(store.scroll(name, SCOPE))),
    "search": lambda store, name: store.search(name, SCOPE, vector(1), limit=1),
    "lexical_search": lambda store, name: store.lexical_search(name, SCOPE, {7: 1.0}, limit=1),
    "hybrid_search": lambda store, name: store.hybrid_search(name, SCOPE, vector(1), {7: 1.0}, limit=1),
    "wait_indexed": lambda store, name: store.wait_indexed(name, timeout=1.0),
    "stats": lambda store, name: store.stats(name),
}
UNFIT: dict[str, dict[str, Any]] = {
    "nul in the text": {"text": "a\0b"},
    "half a surrogate pair in the text": {"text": "a\ud800b"},
    "nul in a group": {"acl": ("a\0b",)},
    "nul in a heading": {"headings": ("a\0b",)},
    "nul in a field's name": {"metadata": {"a\0b": 1}},
    "nul in a value": {"metadata": {"note": "a\0b"}},
    "half a surrogate pair in a value": {"metadata": {"note": "\udfff"}},
    "not a number": {"metadata": {"price": float("nan")}},
    "another type than declared": {"metadata": {"year": "2026"}},
    "a term id of 33 bits": {"terms": {2**32: 1.0}},
    "a weight that is not finite": {"terms": {7: float("inf")}},
    "a vector that is not finite": {"vector": vector(float("nan"))},
    "a zero vector under cosine": {"vector": vector()},
}
STRANGE = ["it's", '"quoted"', "back\\slash", "%s %(x)s", "{}", "-- drop", "日本語 🦜", "a,b}", "NULL", " ", "x" * 5000]


class StoreConformance(Conformance):
    """Collections and records."""

    async def test_creating_a_collection_again_with_the_same_spec_changes_nothing(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection(records(2))

        await store.create_collection(name, spec_of())

        assert await store.count(name, SCOPE) == 2

    async def test_creating_a_collection_again_with_another_spec_is_refused(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection()

        with pytest.raises(CollectionExistsError):
            await store.create_collection(name, spec_of(metric=Metric.DOT))

    async def test_a_collection_is_described_by_the_spec_it_was_created_with(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        spec = spec_of(dimension=5, metric=Metric.L2, filterable={"naïve 名": FieldType.STRINGS})
        name = await make_collection(spec=spec)

        assert await store.describe_collection(name) == spec

    @pytest.mark.parametrize("call", EVERY_CALL)
    async def test_every_call_on_an_unknown_collection_says_so(self, store: VectorStore, call: str) -> None:
        with pytest.raises(CollectionNotFoundError):
            await EVERY_CALL[call](store, "never_created")

    async def test_dropping_an_unknown_collection_does_nothing(self, store: VectorStore) -> None:
        await store.drop_collection("never_created")

    async def test_a_dropped_collection_is_unknown_and_comes_back_empty(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection(records(2))

        await store.drop_collection(name)

        with pytest.raises(CollectionNotFoundError):
            await store.count(name, SCOPE)
        await store.create_collection(name, spec_of(dimension=3))
        assert await store.count(name, SCOPE) == 0

    @pytest.mark.parametrize("name", ["", "Upper", "a-b", 'a"b', "a;drop table x", "名", "a\0", "x" * 61])
    async def test_a_name_that_no_catalog_makes_is_refused(self, store: VectorStore, name: str) -> None:
        with pytest.raises(InvalidRequestError):
            await store.create_collection(name, spec_of())

    async def test_a_record_is_read_back_whole(self, store: VectorStore, make_collection: Make) -> None:
        whole = record(
            3,
            terms={0: 0.5, 2**31: 1.5, 2**32 - 1: 2.25, 999_999_999: 1.0, 1_000_000_000: 3.0, 12: 0.0},
            text="naïve “quotes” 引用\n\t🦜",
            acl=("staff", "group with ' quote"),
            page=12,
            headings=("One", 'Two, "three"'),
            quality=Quality.FRAGMENT,
            metadata={
                "language": "zh",
                "year": -5,
                "price": 1e16,
                "public": False,
                "created": MOMENT,
                "tags": ["a", "b,c"],
                "free": 2.0,
                "list": [],
                "nothing": None,
            },
        )
        name = await make_collection([whole])

        (found,) = await store.get(name, SCOPE.as_service(), [whole.id])

        assert same(found, whole)
        assert type(found.metadata["price"]) is float

    async def test_records_come_in_the_order_asked_for_without_the_missing_ones(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection(records(5))
        asked = [record(4).id, record(99).id, record(1).id]

        assert [found.index for found in await store.get(name, SCOPE, asked)] == [4, 1]

    async def test_writing_twice_is_writing_once(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection(records(4))

        await write(store, name, records(4))

        assert await store.count(name, SCOPE) == 4
        assert len(await store.search(name, SCOPE, vector(1), limit=10)) == 4

    async def test_a_record_written_again_replaces_the_first(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection([record(0, terms={7: 1.0, 8: 1.0}, metadata={"year": 1})])
        second = record(0, vector=vector(0, 1), terms={8: 2.0}, text="second", metadata={"year": 2})

        await write(store, name, [second])

        (found,) = await store.get(name, SCOPE, [second.id])
        assert same(found, second)
        assert await store.lexical_search(name, SCOPE, {7: 1.0}, limit=5) == []
        assert await store.count(name, SCOPE, Compare(operator="eq", key="year", value=1)) == 0

    async def test_of_an_id_given_twice_in_a_batch_the_last_one_counts(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection([record(0, text="first"), record(0, text="last")])

        assert [found.text for found in await store.get(name, SCOPE, [record(0).id])] == ["last"]

    async def test_an_empty_batch_writes_nothing(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection()
        nothing: dict[str, Any] = {column: [] for column in RecordBatch.__slots__}
        nothing |= {"tenant": SCOPE.tenant, "vectors": np.empty((0, 8), np.float32)}

        await store.upsert(name, SCOPE, RecordBatch(**nothing))

        assert await store.count(name, SCOPE) == 0

    async def test_a_vector_of_another_dimension_is_refused_before_anything_is_written(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection()
        short = [replace(each, vector=each.vector[:3]) for each in records(2)]

        with pytest.raises(DimensionMismatchError):
            await write(store, name, short)

        assert await store.count(name, SCOPE) == 0

    @pytest.mark.parametrize("fault", UNFIT)
    async def test_what_cannot_be_kept_is_refused_before_anything_is_written(
        self, store: VectorStore, make_collection: Make, fault: str
    ) -> None:
        name = await make_collection()

        with pytest.raises(InvalidRequestError):
            await write(store, name, [record(0), record(1, **UNFIT[fault])])

        assert await store.count(name, SCOPE) == 0

    async def test_a_batch_of_another_tenant_is_refused(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection()

        with pytest.raises(InvalidRequestError):
            await store.upsert(name, Scope(tenant="other"), RecordBatch.of(records(1)))

    async def test_names_and_values_of_any_shape_are_kept_and_found(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        fields = {f"s{text}": FieldType.STRING for text in STRANGE} | {
            f"l{text}": FieldType.STRINGS for text in STRANGE
        }
        metadata = {f"s{text}": text for text in STRANGE} | {f"l{text}": [text, "other"] for text in STRANGE}
        name = await make_collection([record(0, metadata=metadata), record(1)], spec_of(filterable=fields))

        for text in STRANGE:
            for filter in (
                Compare(operator="eq", key=f"s{text}", value=text),
                Contains(key=f"l{text}", value=text),
            ):
                hits = await store.search(name, SCOPE, vector(1), limit=5, filter=filter)
                assert [dict(hit.metadata) for hit in hits] == [metadata]

    async def test_a_filter_on_an_undeclared_field_is_refused(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection()

        with pytest.raises(FilterError):
            await store.count(name, SCOPE, Compare(operator="eq", key="tenant", value="x"))

    async def test_deleting_what_is_missing_does_nothing(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection(records(2))

        await store.delete(name, SCOPE, ByIds(ids=(record(9).id,)))
        await store.delete(name, SCOPE, ByIds(ids=()))
        await store.delete(name, SCOPE, ByDocument(document=document_of("unknown")))

        assert await store.count(name, SCOPE) == 2

    async def test_the_old_generation_of_a_document_is_deleted_alone(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        old, new, other = records(3), records(2, generation=2), records(2, document="other")
        name = await make_collection([*old, *new, *other])

        await store.delete(name, SCOPE, ByDocument(document=document_of("manual"), generation=1))

        assert await store.get(name, SCOPE, [each.id for each in old]) == []
        assert await store.count(name, SCOPE) == 4

    async def test_a_deleted_record_is_found_by_no_search(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection(records(3))

        await store.delete(name, SCOPE, ByIds(ids=(record(1).id,)))

        assert record(1).id not in {hit.id for hit in await store.search(name, SCOPE, record(1).vector, limit=5)}
        assert record(1).id not in {hit.id for hit in await store.lexical_search(name, SCOPE, {7: 1.0}, limit=5)}

    async def test_a_filter_deletes_and_counts_what_it_matches(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection([record(i, metadata={"year": i}) for i in range(10)])
        recent = Compare(operator="gte", key="year", value=4)

        assert await store.count(name, SCOPE, recent) == 6
        await store.delete(name, SCOPE, recent)

        assert await store.count(name, SCOPE) == 4

    async def test_a_scroll_gives_each_record_once_in_order_of_id(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        rows = [*records(11), *records(3, document="other")]
        name = await make_collection(rows)

        batches = [batch async for batch in store.scroll(name, SCOPE, batch_size=4)]
        of_document = store.scroll(name, SCOPE, selector=ByDocument(document=document_of("other")))

        assert [len(batch) for batch in batches] == [4, 4, 4, 2]
        assert [found.id for batch in batches for found in batch] == sorted(row.id for row in rows)
        assert sum([len(batch) async for batch in of_document]) == 3

    async def test_new_metadata_reaches_every_record_of_the_document_and_no_other(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        before = {"year": 1, "tags": ["old"]}
        name = await make_collection([*records(3, metadata=before), record(9, document="other", metadata=before)])

        await store.update_metadata(name, SCOPE, document_of("manual"), {"year": 2, "created": MOMENT, "free": "x"})
        await store.update_metadata(name, SCOPE, document_of("unknown"), {"year": 9})

        assert await store.count(name, SCOPE, Compare(operator="eq", key="year", value=2)) == 3
        assert await store.count(name, SCOPE, Contains(key="tags", value="old")) == 1
        (hit, *_) = await store.search(name, SCOPE, record(0).vector, limit=1)
        assert hit.metadata == {"year": 2, "created": MOMENT, "free": "x"}

    async def test_the_store_answers_and_says_how_much_it_holds(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection(records(7))

        await store.ping()
        await store.wait_indexed(name, timeout=30.0)

        stats = await store.stats(name)
        assert (stats.rows, stats.indexed) == (7, 7)
        assert stats.bytes > 0
