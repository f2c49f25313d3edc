"""What a store promises of what cannot be meant: one clear error, and nothing written that a retry does not heal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
import pytest

from rag.core.errors import (
    AnchorageError,
    CollectionNotFoundError,
    DimensionMismatchError,
    FilterError,
    InvalidRequestError,
    RequestError,
)
from rag.core.filters import RESERVED_FIELDS, Compare, Contains, Exists, Filter, In, Not
from rag.core.ports import VectorStore
from rag.core.records import ByDocument, CollectionSpec, HnswIndex, RecordBatch
from rag.core.types import FieldType, Metadata, Scope, Vectors
from stores.testing.calls import EVERY_CALL, SEARCHES, filtered_calls, offered
from stores.testing.engine import Conformance, Make
from stores.testing.records import (
    DIMENSION,
    SCOPE,
    assert_refused,
    clustered,
    document_of,
    everything,
    record,
    records,
    same,
    spec_of,
    vector,
    write,
)

UNFIT_METADATA: dict[str, Metadata] = {
    "nul in a field's name": {"a\0b": 1},
    "half a surrogate pair in a field's name": {"a\ud800b": 1},
    "no name": {"": 1},
    "nul in a value": {"note": "a\0b"},
    "nul in a list": {"tags": ["a", "\0"]},
    "half a surrogate pair in a value": {"note": "\udfff"},
    "not a number": {"price": float("nan")},
    "infinite": {"price": float("inf")},
    "a whole number of more than 64 bits": {"year": 2**63},
    "another type than declared": {"year": "2026"},
    "a truth value as a number": {"year": True},
    "a text where a list is declared": {"tags": "a"},
    **{f"the reserved name {name}": {name: "x"} for name in sorted(RESERVED_FIELDS)},
}
UNFIT: dict[str, dict[str, Any]] = {
    "nul in the text": {"text": "a\0b"},
    "half a surrogate pair in the text": {"text": "a\ud800b"},
    "nul in a group": {"acl": ("a\0b",)},
    "nul in a heading": {"headings": ("a\0b",)},
    "a term id of 33 bits": {"terms": {2**32: 1.0}},
    "a term id below zero": {"terms": {-1: 1.0}},
    "a weight that is not finite": {"terms": {7: float("inf")}},
    "a weight that is not a number": {"terms": {7: float("nan")}},
    "a weight that is no float32": {"terms": {7: 1e39}},
    "a vector that is not a number": {"vector": vector(float("nan"))},
    "an infinite vector": {"vector": vector(1.0, float("-inf"))},
    "a vector whose length is no float32": {"vector": vector(1e30, 1e30)},
    "a zero vector under cosine": {"vector": vector()},
    "a vector whose length rounds to zero under cosine": {"vector": vector(1e-30)},
    "an offset below zero": {"start": -1},
    "an index of more than 31 bits": {"index": 2**31},
    **{case: {"metadata": metadata} for case, metadata in UNFIT_METADATA.items()},
}
UNFIT_SPECS: dict[str, CollectionSpec] = {
    **{f"the field {name!r}": spec_of(filterable={name: FieldType.STRING}) for name in ("", "a\0b", "\ud800")},
    **{f"the field {name}": spec_of(filterable={name: FieldType.STRING}) for name in sorted(RESERVED_FIELDS)},
    **{
        f"HNSW with {m} and {ef}": CollectionSpec(dimension=8, index=HnswIndex(m=m, ef_construction=ef))
        for m, ef in ((0, 100), (101, 1000), (16, 0), (16, 31), (16, 1001), (-1, -1))
    },
}
UNFIT_FILTERS: dict[str, Filter] = {
    "an undeclared field": Compare(operator="eq", key="free", value="x"),
    "an undeclared field deep inside": Not(filter=Not(filter=Exists(key="free"))),
    "an undeclared field that looks like code": Exists(key='year" or "1" == "1'),
    **{f"the reserved field {name}": Exists(key=name) for name in sorted(RESERVED_FIELDS)},
    "not a number": Compare(operator="gt", key="price", value=float("nan")),
    "not a number among others": In(key="price", values=(1.0, float("nan"))),
    "nul": Compare(operator="eq", key="language", value="a\0"),
    "nul in a list": Contains(key="tags", value="\0"),
    "half a surrogate pair": In(key="language", values=("\ud800",)),
}
STRANGE = [
    "it's", '"quoted"', "back\\slash", "ends with \\", '\\"', "%s %(x)s %", "{}", "{{x}} ${y} {0}", "_", "*?[a]",
    "-- drop", "'; drop table x; --", "日本語 🦜👩‍👩‍👧", "a,b}", "NULL", " ", " padded ", "line\nbreak\r\n\ttab",
    "\u202ertl\u200b", "é", "e\u0301", "É", "true", "1", "x" * 5000, "字" * 5000,
]  # fmt: skip
LARGE_ROWS, LARGE_DIMENSION = 4000, 1536
LARGE_TEXT = "A paragraph of some length, 一段文字. " * 480
MEMORY_BOUND = 15
"""Times its own size that a batch may take while it is written."""


class BadInputConformance(Conformance):
    """Bad input and odd input."""

    @pytest.mark.parametrize("name", ["", "Upper", "a-b", 'a"b', "a;drop table x", "名", "a\0", "x" * 61])
    async def test_a_name_that_no_catalog_makes_is_refused(self, store: VectorStore, name: str) -> None:
        await assert_refused(store.create_collection(name, spec_of()), InvalidRequestError, name)
        for case, call in offered(store, EVERY_CALL).items():
            await assert_refused(call(store, name), InvalidRequestError, case)

    async def test_a_spec_that_no_store_could_keep_is_refused_and_nothing_is_created(self, store: VectorStore) -> None:
        for case, spec in UNFIT_SPECS.items():
            await assert_refused(store.create_collection("never_created", spec), InvalidRequestError, case)
            await assert_refused(store.describe_collection("never_created"), CollectionNotFoundError, case)

    async def test_what_cannot_be_kept_is_refused_before_anything_is_written(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        before = record(0, text="before")
        name = await make_collection([before])

        for case, fault in UNFIT.items():
            batch = [record(0, text="after"), record(1, **fault), record(2)]
            await assert_refused(write(store, name, batch), InvalidRequestError, case)
            (kept,) = await everything(store, name)
            assert same(kept, before), case

        await write(store, name, [record(0, text="after"), record(2)])
        assert [one.text for one in await store.get(name, SCOPE, [before.id])] == ["after"]

    async def test_a_vector_of_another_dimension_is_refused_before_anything_is_written(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection()

        for dimension in (0, 3, DIMENSION - 1, DIMENSION + 1, 4096):
            wrong = [replace(each, vector=np.ones(dimension, np.float32)) for each in records(2)]
            await assert_refused(write(store, name, wrong), DimensionMismatchError, dimension)

        assert await store.count(name, SCOPE) == 0

    async def test_an_empty_batch_writes_nothing(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection()
        nothing: dict[str, Any] = {column: [] for column in RecordBatch.__slots__}
        nothing |= {"tenant": SCOPE.tenant, "vectors": np.empty((0, DIMENSION), np.float32)}

        await store.upsert(name, SCOPE, RecordBatch(**nothing))

        assert await store.count(name, SCOPE) == 0

    async def test_a_batch_that_does_not_hold_together_is_refused(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name, batch = await make_collection(), RecordBatch.of(records(2))
        short = {
            column: replace(batch, **{column: getattr(batch, column)[:1]})
            for column in RecordBatch.__slots__
            if column != "tenant"
        }

        foreign = store.upsert(name, Scope(tenant="other"), batch)
        await assert_refused(foreign, InvalidRequestError, "a batch of another tenant")
        for column, faulty in short.items():
            await assert_refused(store.upsert(name, SCOPE, faulty), InvalidRequestError, column)

        assert await store.count(name, SCOPE) == 0

    async def test_metadata_that_cannot_be_kept_does_not_replace_any(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection([record(0, metadata={"year": 1})])

        for case, metadata in UNFIT_METADATA.items():
            update = store.update_metadata(name, SCOPE, document_of("manual"), metadata)
            await assert_refused(update, InvalidRequestError, case)

        assert [one.metadata for one in await everything(store, name)] == [{"year": 1}]

    async def test_a_filter_that_means_nothing_is_refused_by_every_call(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection(records(2))

        for case, filter in UNFIT_FILTERS.items():
            for called, call in offered(store, filtered_calls(filter)).items():
                await assert_refused(call(store, name), FilterError, (case, called))

        assert await store.count(name, SCOPE) == 2

    async def test_a_query_that_means_nothing_is_refused_by_every_search(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection(records(2))

        for case, search in offered(store, SEARCHES).items():
            await assert_refused(search(store, name, limit=0), InvalidRequestError, case)
            await assert_refused(search(store, name, Scope(tenant="a\0")), InvalidRequestError, case)
            await assert_refused(search(store, name, Scope(groups=frozenset({"\0"}))), InvalidRequestError, case)
        for fault in ("nan", "inf", "0", "1e-30"):
            await self._refuse_vector(store, name, vector(float(fault)), InvalidRequestError)
        for dimension in (1, DIMENSION - 1, DIMENSION + 1):
            await self._refuse_vector(store, name, np.ones(dimension, np.float32), DimensionMismatchError)

    @pytest.mark.usefixtures("lexical")
    async def test_terms_that_mean_nothing_are_refused(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection(records(2))

        for terms in ({-1: 1.0}, {2**32: 1.0}, {7: float("nan")}, {7: float("inf")}):
            lexical = store.lexical_search(name, SCOPE, terms, limit=1)
            hybrid = store.hybrid_search(name, SCOPE, vector(1), terms, limit=1)
            await assert_refused(lexical, InvalidRequestError, terms)
            await assert_refused(hybrid, InvalidRequestError, terms)

    async def test_names_of_any_shape_are_kept_and_filtered_by(self, store: VectorStore, make_collection: Make) -> None:
        kinds = {text: (FieldType.STRING, FieldType.STRINGS)[i % 2] for i, text in enumerate(STRANGE)}
        metadata: Metadata = {
            text: text if kind is FieldType.STRING else [text, "other"] for text, kind in kinds.items()
        }
        name = await make_collection([record(0, metadata=metadata), record(1)], spec_of(filterable=kinds))

        for text, kind in kinds.items():
            filter: Filter = Contains(key=text, value=text)
            if kind is FieldType.STRING:
                filter = Compare(operator="eq", key=text, value=text)
            hits = await store.search(name, SCOPE, vector(1), limit=5, filter=filter)
            assert [dict(hit.metadata) for hit in hits] == [metadata], text

    async def test_values_of_any_shape_are_kept_and_told_apart(self, store: VectorStore, make_collection: Make) -> None:
        rows = [
            record(
                i, text=text, headings=(text,), acl=(text,), metadata={"language": text, "tags": [text], "free": text}
            )
            for i, text in enumerate(STRANGE)
        ]
        name = await make_collection(rows)
        service = SCOPE.as_service()

        assert all(same(*pair) for pair in zip(await store.get(name, service, [r.id for r in rows]), rows, strict=True))
        for number, text in enumerate(STRANGE):
            for filter in (Compare(operator="eq", key="language", value=text), Contains(key="tags", value=text)):
                hits = await store.search(name, service, vector(1), limit=5, filter=filter)
                assert [hit.index for hit in hits] == [number], text
            readable = await store.search(
                name, Scope(tenant=SCOPE.tenant, groups=frozenset({text})), vector(1), limit=5
            )
            assert [hit.index for hit in readable] == [number], text

    async def test_very_long_texts_and_values_are_kept_whole_or_refused_whole(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection()
        long = "字a" * 500_000

        for row in (
            record(0, text=long),
            record(1, metadata={"free": long}),
            record(2, metadata={"language": long}),
            record(3, metadata={"tags": [long, "short"]}),
            record(4, headings=(long,)),
            record(5, terms=dict.fromkeys(range(5000), 1.0)),
        ):
            if await _kept(store, name, [row]):
                assert same((await store.get(name, SCOPE, [row.id]))[0], row), row.index
            else:
                assert await store.get(name, SCOPE, [row.id]) == [], row.index

    @pytest.mark.slow
    async def test_a_batch_of_100_megabytes_is_written_whole_or_refused_whole(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        texts, vectors = (
            _Watched([f"{i} {LARGE_TEXT}" for i in range(LARGE_ROWS)]),
            clustered(LARGE_ROWS, dimension=LARGE_DIMENSION),
        )
        batch = replace(RecordBatch.of(records(LARGE_ROWS)), texts=texts, vectors=vectors)
        size = vectors.nbytes + sum(len(text.encode()) for text in texts)
        name = await make_collection(spec=spec_of(dimension=LARGE_DIMENSION))
        texts.threads.clear()

        async with _peak_memory() as peak:
            written = await _accepted(store, name, batch)

        assert size >= 100_000_000
        assert peak[0] < MEMORY_BOUND * size
        assert threading.get_ident() not in texts.threads, "a large batch is read on the event loop"
        assert await store.count(name, SCOPE) == (LARGE_ROWS if written else 0)
        if written:
            (hit,) = await store.search(name, SCOPE, vectors[17], limit=1)
            assert hit.text == texts[17]
            await store.delete(name, SCOPE, ByDocument(document=document_of("manual")))
            assert await store.count(name, SCOPE) == 0

    async def _refuse_vector(self, store: VectorStore, name: str, query: Vectors, error: type[AnchorageError]) -> None:
        many = np.stack([np.ones_like(query), query])
        calls: dict[str, Any] = {
            "search": lambda: store.search(name, SCOPE, query, limit=1),
            "search_many": lambda: store.search_many(name, SCOPE, many, limit=1),
            "hybrid_search": lambda: store.hybrid_search(name, SCOPE, query, {7: 1.0}, limit=1),
        }
        for case, call in offered(store, calls).items():
            await assert_refused(call(), error, (case, query))


class _Watched(list[str]):
    """Texts that note which threads go through them."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__(texts)
        self.threads: set[int] = set()

    def __iter__(self) -> Iterator[str]:
        self.threads.add(threading.get_ident())
        return super().__iter__()


async def _kept(store: VectorStore, name: str, rows: list[Any]) -> bool:
    return await _accepted(store, name, RecordBatch.of(rows))


async def _accepted(store: VectorStore, name: str, batch: RecordBatch) -> bool:
    """Whether the batch was written; a refusal must not blame the engine, or callers would try it for ever."""
    try:
        await store.upsert(name, SCOPE, batch)
    except RequestError:
        return False
    return True


@asynccontextmanager
async def _peak_memory() -> AsyncIterator[list[int]]:
    """By how many bytes the process grew at most, in a list of one number that grows meanwhile."""
    process, done = psutil.Process(), asyncio.Event()
    before, peak = process.memory_info().rss, [0]

    async def watch() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], process.memory_info().rss - before)
            await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        yield peak
        done.set()
