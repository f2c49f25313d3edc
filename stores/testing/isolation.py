"""What a store promises of tenants and groups: nobody reads or touches what is not theirs.

Each claim has its control: the same call by the owner does find the record, so that an answer which is
empty for another reason cannot pass for isolation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.core.filters import Compare, Exists
from rag.core.ports import VectorStore
from rag.core.records import ByDocument, ByIds, Record
from rag.core.types import Scope
from stores.testing.records import (
    SCOPE,
    TENANT,
    Conformance,
    document_of,
    oracle,
    record,
    records,
    same,
    vector,
    write,
)

Make = Callable[..., Awaitable[str]]
OTHER = Scope(tenant="rival")
TENANTS = ("acme", "rival", "ac'me")
ALL_YEARS = Exists(key="year")
MINE = record(0, metadata={"year": 1})

READS: dict[str, Callable[[VectorStore, str, Scope], Awaitable[Any]]] = {
    "search": lambda store, name, scope: store.search(name, scope, MINE.vector, limit=5),
    "filtered": lambda store, name, scope: store.search(name, scope, MINE.vector, limit=5, filter=ALL_YEARS),
    "lexical": lambda store, name, scope: store.lexical_search(name, scope, {7: 1.0}, limit=5),
    "hybrid": lambda store, name, scope: store.hybrid_search(name, scope, MINE.vector, {7: 1.0}, limit=5),
    "get": lambda store, name, scope: store.get(name, scope, [MINE.id]),
    "count": lambda store, name, scope: store.count(name, scope),
    "count by id": lambda store, name, scope: store.count(name, scope, ByIds(ids=(MINE.id,))),
    "scroll": lambda store, name, scope: anext(aiter(store.scroll(name, scope)), None),
}
WRITES: dict[str, Callable[[VectorStore, str, Scope], Awaitable[None]]] = {
    "delete by id": lambda store, name, scope: store.delete(name, scope, ByIds(ids=(MINE.id,))),
    "delete by document": lambda store, name, scope: store.delete(name, scope, ByDocument(document=MINE.document)),
    "delete by filter": lambda store, name, scope: store.delete(name, scope, ALL_YEARS),
    "update": lambda store, name, scope: store.update_metadata(name, scope, MINE.document, {"year": 2}),
}


class IsolationConformance(Conformance):
    """Tenants and groups."""

    @pytest.mark.parametrize("read", READS)
    async def test_a_tenant_reads_only_its_own_records(
        self, store: VectorStore, make_collection: Make, read: str
    ) -> None:
        name = await make_collection([MINE])

        assert await READS[read](store, name, SCOPE)
        assert not await READS[read](store, name, OTHER)

    @pytest.mark.parametrize("call", WRITES)
    async def test_a_tenant_changes_only_its_own_records(
        self, store: VectorStore, make_collection: Make, call: str
    ) -> None:
        name = await make_collection([MINE])

        await WRITES[call](store, name, OTHER)

        (kept,) = await store.get(name, SCOPE, [MINE.id])
        assert same(kept, MINE)
        await WRITES[call](store, name, SCOPE)
        assert not any(same(found, MINE) for found in await store.get(name, SCOPE, [MINE.id]))

    async def test_a_foreign_id_written_anew_leaves_its_owner_alone(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection([MINE])
        theirs = record(0, tenant=OTHER.tenant, id=MINE.id, text="theirs")

        await write(store, name, [theirs])

        assert [found.text for found in await store.get(name, SCOPE, [MINE.id])] == [MINE.text]
        assert [found.text for found in await store.get(name, OTHER, [MINE.id])] == ["theirs"]

    async def test_a_tenant_in_a_crowd_of_others_gets_all_its_hits(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        crowd = [record(i, tenant=OTHER.tenant, vector=vector(1, 0.001 * i)) for i in range(400)]
        mine = [record(i, vector=vector(-1, 0.1 * i)) for i in range(3)]
        name = await make_collection([*crowd, *mine])

        for hits in (
            await store.search(name, SCOPE, vector(1), limit=3),
            await store.lexical_search(name, SCOPE, {7: 1.0}, limit=3),
            await store.hybrid_search(name, SCOPE, vector(1), {7: 1.0}, limit=3),
        ):
            assert {hit.id for hit in hits} == {row.id for row in mine}

    @pytest.mark.parametrize(
        ("groups", "seen"),
        [
            (frozenset(), {0}),
            (frozenset({"staff"}), {0, 1, 2}),
            (frozenset({"board", "unknown"}), {0, 2, 3}),
            (frozenset({"it's, {odd}"}), {0, 4}),
            (None, {0, 1, 2, 3, 4}),
        ],
    )
    async def test_groups_read_what_is_theirs_or_everyones_and_the_service_reads_all(
        self, store: VectorStore, make_collection: Make, groups: frozenset[str] | None, seen: set[int]
    ) -> None:
        acls: list[tuple[str, ...]] = [(), ("staff",), ("staff", "board"), ("board",), ("it's, {odd}",)]
        name = await make_collection([record(i, acl=acl) for i, acl in enumerate(acls)])
        scope = Scope(tenant=TENANT, groups=groups)

        found: list[list[Any]] = [
            await store.search(name, scope, vector(1), limit=9),
            await store.lexical_search(name, scope, {7: 1.0}, limit=9),
            await store.hybrid_search(name, scope, vector(1), {7: 1.0}, limit=9),
            await store.get(name, scope, [record(i).id for i in range(5)]),
            [one async for batch in store.scroll(name, scope) for one in batch],
        ]

        assert [{one.index for one in each} for each in found] == [seen] * 5
        assert await store.count(name, scope) == len(seen)

    async def test_tenants_that_write_and_delete_at_random_never_see_each_other(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection()
        loop = asyncio.get_running_loop()

        @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(_step(), min_size=1, max_size=12))
        def examples(steps: list[tuple[str, str, int]]) -> None:
            asyncio.run_coroutine_threadsafe(_replay(store, name, steps), loop).result(120)

        await asyncio.to_thread(examples)


def _step() -> st.SearchStrategy[tuple[str, str, int]]:
    kinds = st.sampled_from(["write", "write", "delete", "delete document", "delete filter", "update"])
    return st.tuples(kinds, st.sampled_from(TENANTS), st.integers(0, 5))


async def _replay(store: VectorStore, name: str, steps: list[tuple[str, str, int]]) -> None:
    """Run the steps on the store and on the exact store; each tenant then sees the same in both."""
    memory = await oracle([])
    for tenant in TENANTS:
        await store.delete(name, Scope(tenant=tenant, groups=None), ByIds(ids=tuple(_own_ids(tenant))))
    for step in steps:
        await _take(store, name, step)
        await _take(memory, "oracle", step)
    for tenant in TENANTS:
        scope = Scope(tenant=tenant, groups=None)
        found = [one async for batch in store.scroll(name, scope) for one in batch]
        expected = [one async for batch in memory.scroll("oracle", scope) for one in batch]
        assert [_key(one) for one in found] == [_key(one) for one in expected]
        assert {hit.id for hit in await store.hybrid_search(name, scope, vector(1), {7: 1.0}, limit=50)} == {
            one.id for one in expected
        }


async def _take(store: VectorStore, name: str, step: tuple[str, str, int]) -> None:
    kind, tenant, number = step
    scope = Scope(tenant=tenant)
    document = "even" if number % 2 == 0 else "odd"
    match kind:
        case "write":
            row = record(number, tenant=tenant, document=document, text=tenant, metadata={"year": number})
            await write(store, name, [row])
        case "delete":
            await store.delete(name, scope, ByIds(ids=tuple(_own_ids(TENANTS[number % 3])[: number + 1])))
        case "delete document":
            await store.delete(name, scope, ByDocument(document=document_of(document), generation=1))
        case "delete filter":
            await store.delete(name, scope, Compare(operator="gt", key="year", value=number))
        case _:
            await store.update_metadata(name, scope, document_of(document), {"year": number})


def _own_ids(tenant: str) -> list[Any]:
    both = (records(6, tenant=tenant, document=document) for document in ("even", "odd"))
    return [row.id for rows in both for row in rows]


def _key(one: Record) -> tuple[Any, ...]:
    return one.id, one.tenant, one.text, dict(one.metadata)
