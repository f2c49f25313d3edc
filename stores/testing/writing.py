"""What a store promises of collections and of records written, read and deleted."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid1

import numpy as np
import pytest

from rag.core.errors import CollectionExistsError, CollectionNotFoundError
from rag.core.filters import And, Compare, Contains, Not, Or
from rag.core.ports import VectorStore
from rag.core.records import ByDocument, ByIds, CollectionSpec, HnswIndex, Metric
from rag.core.types import FieldType, Quality
from stores.testing.calls import EVERY_CALL, SEARCHES, offered
from stores.testing.engine import Conformance, Drop, Make
from stores.testing.records import (
    MOMENT,
    SCOPE,
    assert_refused,
    document_of,
    everything,
    oracle,
    record,
    records,
    same,
    spec_of,
    vector,
    write,
)

ODD_IDS = (UUID(int=0), UUID(int=1), UUID(int=2**64), UUID(int=2**127), UUID(int=2**128 - 1), uuid1())


class RecordConformance(Conformance):
    """Collections and records."""

    async def test_creating_a_collection_again_with_the_same_spec_changes_nothing(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection(records(2))

        await store.create_collection(name, spec_of())

        assert await store.count(name, SCOPE) == 2

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

    async def test_of_an_id_given_twice_in_a_batch_the_last_one_counts(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection([record(0, text="first"), record(0, text="last")])

        assert [found.text for found in await store.get(name, SCOPE, [record(0).id])] == ["last"]

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

    async def test_every_call_on_an_unknown_collection_says_so(self, store: VectorStore) -> None:
        for name, call in offered(store, EVERY_CALL).items():
            await assert_refused(call(store, "never_created"), CollectionNotFoundError, name)

    async def test_creating_a_collection_again_with_another_spec_is_refused(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection(records(2))
        others = (
            spec_of(metric=Metric.DOT),
            spec_of(dimension=3),
            spec_of(filterable={}),
            CollectionSpec(dimension=8, filterable=spec_of().filterable, index=HnswIndex(m=8)),
        )

        for spec in others:
            await assert_refused(store.create_collection(name, spec), CollectionExistsError, spec)

        assert await store.describe_collection(name) == spec_of()
        assert await store.count(name, SCOPE) == 2

    async def test_a_collection_is_described_by_the_spec_it_was_created_with(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        spec = CollectionSpec(
            dimension=5,
            metric=Metric.L2,
            index=HnswIndex(m=24, ef_construction=150),
            filterable={"naïve 名": FieldType.STRINGS, 'a"b': FieldType.DATETIME},
        )
        name = await make_collection(spec=spec)

        assert await store.describe_collection(name) == spec

    async def test_two_that_create_the_same_collection_at_once_both_succeed(
        self, store: VectorStore, second_store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection()
        await store.drop_collection(name)

        await asyncio.gather(*(each.create_collection(name, spec_of()) for each in (store, second_store) * 2))

        await write(store, name, records(1))
        assert await store.count(name, SCOPE) == 1

    async def test_a_collection_dropped_behind_the_stores_back_is_unknown_until_it_is_created_again(
        self, store: VectorStore, make_collection: Make, sabotage_drop: Drop
    ) -> None:
        name = await make_collection()

        for case, call in self.some(offered(store, EVERY_CALL)).items():
            await write(store, name, records(2))
            await SEARCHES["search"](store, name)
            await sabotage_drop(name)
            await assert_refused(call(store, name), CollectionNotFoundError, case)
            await store.create_collection(name, spec_of())
            assert await store.count(name, SCOPE) == 0, case

        await write(store, name, records(2))
        assert len(await SEARCHES["search"](store, name)) == 2

    async def test_a_record_written_again_replaces_the_first(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection([record(0, terms={7: 1.0, 8: 1.0}, metadata={"year": 1, "tags": ["a"]})])
        second = record(0, vector=vector(0, 1), terms={8: 2.0}, text="second", metadata={"year": 2})

        await write(store, name, [second])

        (found,) = await store.get(name, SCOPE, [second.id])
        assert same(found, second)
        for each in offered(store, {"lexical_search": SEARCHES["lexical_search"]}).values():
            assert await each(store, name) == []
        assert await store.count(name, SCOPE, Compare(operator="eq", key="year", value=1)) == 0
        assert await store.count(name, SCOPE, Contains(key="tags", value="a")) == 0

    async def test_ids_of_any_shape_are_kept_in_order_and_found(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        rows = [record(i, id=id) for i, id in enumerate(ODD_IDS)]
        name = await make_collection(rows)

        scrolled = [one.id async for batch in store.scroll(name, SCOPE, batch_size=1) for one in batch]
        asked = await store.get(name, SCOPE, [ODD_IDS[4], ODD_IDS[0], ODD_IDS[4]])

        assert scrolled == sorted(ODD_IDS)
        assert [one.id for one in asked] == [ODD_IDS[4], ODD_IDS[0], ODD_IDS[4]]
        assert {hit.id for hit in await SEARCHES["search"](store, name, limit=9)} == set(ODD_IDS)
        await store.delete(name, SCOPE, ByIds(ids=ODD_IDS[:2]))
        assert await store.count(name, SCOPE, ByIds(ids=ODD_IDS)) == len(ODD_IDS) - 2

    async def test_a_deleted_record_is_found_by_no_search(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection(records(3))

        await store.delete(name, SCOPE, ByIds(ids=(record(1).id,)))

        for case, search in offered(store, SEARCHES).items():
            assert record(1).id not in {hit.id for hit in await search(store, name)}, case

    async def test_a_filter_deletes_and_counts_what_it_matches(self, store: VectorStore, make_collection: Make) -> None:
        rows = [record(i, metadata={"year": i, "public": i % 2 == 0} if i else {}) for i in range(10)]
        name, memory = await make_collection(rows), await oracle(rows)
        late = Compare(operator="gte", key="year", value=8)
        public = Compare(operator="eq", key="public", value=True)
        early = Compare(operator="lt", key="year", value=3)

        for selector in (
            Not(filter=And(filters=())),
            late,
            And(filters=(public, Not(filter=Or(filters=(early, Compare(operator="eq", key="year", value=6)))))),
            Not(filter=Or(filters=(public, Not(filter=early)))),
            Not(filter=public),
        ):
            assert await store.count(name, SCOPE, selector) == await memory.count("oracle", SCOPE, selector)
            await store.delete(name, SCOPE, selector)
            await memory.delete("oracle", SCOPE, selector)
            assert [one.index for one in await everything(store, name)] == [
                one.index for one in await everything(memory, "oracle")
            ], selector

    async def test_a_scroll_takes_a_filter_or_ids(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection([record(i, metadata={"year": i}) for i in range(9)])
        late = Compare(operator="gt", key="year", value=2)
        ids = ByIds(ids=(record(8).id, record(1).id, record(99).id))

        filtered = [batch async for batch in store.scroll(name, SCOPE, selector=late, batch_size=4)]
        chosen = [one async for batch in store.scroll(name, SCOPE, selector=ids) for one in batch]

        assert [len(batch) for batch in filtered] == [4, 2]
        assert {one.index for batch in filtered for one in batch} == set(range(3, 9))
        assert [one.id for one in chosen] == sorted(ids.ids[:2])

    async def test_a_write_cut_off_is_healed_by_its_retry(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection(records(300, text="old", terms={7: 1.0, 8: 1.0}))
        rows = records(300, text="new", metadata={"year": 2})

        for pause in np.linspace(0.0, 0.05, 6):
            call = asyncio.create_task(write(store, name, rows))
            await asyncio.sleep(pause)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        await write(store, name, rows)

        found = await everything(store, name)
        assert [one.id for one in found] == sorted(row.id for row in rows)
        expected = {row.id: row for row in rows}
        assert all(same(one, expected[one.id]) for one in found)

    async def test_the_same_records_written_at_once_are_there_once(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection()

        async with asyncio.TaskGroup() as group:
            for attempt in range(6):
                group.create_task(write(store, name, records(30, text=f"attempt {attempt % 3}")))

        assert len(await everything(store, name)) == 30
        assert len(await SEARCHES["search"](store, name, limit=99)) == 30
