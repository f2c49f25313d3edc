"""What a store promises of tenants and groups: nobody reads or touches what is not theirs.

Each claim has its control: the same call by the owner does find the record, so that an answer which is
empty for another reason cannot pass for isolation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rag.core.filters import Compare, Exists
from rag.core.ports import VectorStore
from rag.core.records import ByDocument, ByIds
from rag.core.types import Scope
from stores.testing.calls import SEARCHES, offered
from stores.testing.engine import Conformance, Make, run_examples
from stores.testing.records import SCOPE, TENANT, everything, record, same, vector, write
from stores.testing.tenants import Step, replay, steps

OTHER = Scope(tenant="rival")
ALL_YEARS = Exists(key="year")
NOT_OLD = Compare(operator="ne", key="year", value=0)
MINE = record(0, vector=vector(1), metadata={"year": 1})
STEPS = 24
"""Steps of one random example at least."""

Read = Callable[[VectorStore, str, Scope], Awaitable[Any]]
READS: dict[str, Read] = {
    **SEARCHES,
    "filtered": lambda store, name, scope: store.search(name, scope, MINE.vector, limit=5, filter=ALL_YEARS),
    "negated": lambda store, name, scope: store.search(name, scope, MINE.vector, limit=5, filter=NOT_OLD),
    "get": lambda store, name, scope: store.get(name, scope, [MINE.id]),
    "count": lambda store, name, scope: store.count(name, scope),
    "count by id": lambda store, name, scope: store.count(name, scope, ByIds(ids=(MINE.id,))),
    "count by document": lambda store, name, scope: store.count(name, scope, ByDocument(document=MINE.document)),
    "count by filter": lambda store, name, scope: store.count(name, scope, NOT_OLD),
    "scroll": lambda store, name, scope: anext(aiter(store.scroll(name, scope)), None),
}
WRITES: dict[str, Callable[[VectorStore, str, Scope], Awaitable[None]]] = {
    "delete by id": lambda store, name, scope: store.delete(name, scope, ByIds(ids=(MINE.id,))),
    "delete by document": lambda store, name, scope: store.delete(name, scope, ByDocument(document=MINE.document)),
    "delete by filter": lambda store, name, scope: store.delete(name, scope, ALL_YEARS),
    "delete by negation": lambda store, name, scope: store.delete(name, scope, NOT_OLD),
    "update": lambda store, name, scope: store.update_metadata(name, scope, MINE.document, {"year": 2}),
}
SEEN: list[tuple[frozenset[str] | None, set[int]]] = [
    (frozenset(), {0}),
    (frozenset({"staff"}), {0, 1, 2}),
    (frozenset({"board", "unknown"}), {0, 2, 3}),
    (frozenset({"it's, {odd}"}), {0, 4}),
    (None, {0, 1, 2, 3, 4}),
]


class IsolationConformance(Conformance):
    """Tenants and groups."""

    async def test_a_tenant_reads_only_its_own_records(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection([MINE])

        for case, read in offered(store, READS).items():
            assert await read(store, name, SCOPE), case
            assert not await read(store, name, OTHER), case

    async def test_a_tenant_changes_only_its_own_records(self, store: VectorStore, make_collection: Make) -> None:
        name = await make_collection()

        for case, call in WRITES.items():
            await write(store, name, [MINE])
            await call(store, name, OTHER)
            (kept,) = await store.get(name, SCOPE, [MINE.id])
            assert same(kept, MINE), case
            await call(store, name, SCOPE)
            assert not any(same(found, MINE) for found in await store.get(name, SCOPE, [MINE.id])), case

    async def test_a_foreign_id_written_anew_leaves_its_owner_alone(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        name = await make_collection([MINE])
        theirs = record(0, tenant=OTHER.tenant, id=MINE.id, text="theirs")

        await write(store, name, [theirs])

        assert [found.text for found in await store.get(name, SCOPE, [MINE.id])] == [MINE.text]
        assert [found.text for found in await store.get(name, OTHER, [MINE.id])] == ["theirs"]
        await store.delete(name, OTHER, ByIds(ids=(MINE.id,)))
        assert [found.text for found in await everything(store, name)] == [MINE.text]

    async def test_a_tenant_in_a_crowd_of_others_gets_all_its_hits(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        crowd = [record(i, tenant=OTHER.tenant, vector=vector(1, 0.001 * i)) for i in range(400)]
        mine = [record(i, vector=vector(-1, 0.1 * i)) for i in range(3)]
        name = await make_collection([*crowd, *mine])

        for case, search in offered(store, SEARCHES).items():
            assert {hit.id for hit in await search(store, name, limit=3)} == {row.id for row in mine}, case

    async def test_names_of_tenants_that_look_alike_are_told_apart(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        tenants = ["a", "A", "a ", "a'", 'a"', "a\\", "á", "a\u0301", "a%", "*", "租户", "x" * 500, "x" * 499]
        name = await make_collection([record(0, tenant=tenant, text=tenant) for tenant in tenants])

        for tenant in tenants:
            scope = Scope(tenant=tenant)
            assert [one.text for one in await everything(store, name, scope)] == [tenant]
            for case, search in offered(store, SEARCHES).items():
                assert [hit.text for hit in await search(store, name, scope)] == [tenant], (case, tenant)

    async def test_groups_read_what_is_theirs_or_everyones_and_the_service_reads_all(
        self, store: VectorStore, make_collection: Make
    ) -> None:
        acls: list[tuple[str, ...]] = [(), ("staff",), ("staff", "board"), ("board",), ("it's, {odd}",)]
        rows = [record(i, acl=acl) for i, acl in enumerate(acls)]
        name = await make_collection(rows)

        for groups, seen in SEEN:
            scope = Scope(tenant=TENANT, groups=groups)
            for case, search in offered(store, SEARCHES).items():
                assert {hit.index for hit in await search(store, name, scope, limit=9)} == seen, (case, groups)
            assert {one.index for one in await store.get(name, scope, [row.id for row in rows])} == seen, groups
            assert {one.index for one in await everything(store, name, scope)} == seen, groups
            assert await store.count(name, scope) == len(seen), groups

    async def test_three_tenants_at_random_never_see_count_change_or_delete_what_is_anothers(
        self, store: VectorStore, make_collection: Make, record_property: Callable[[str, object], None]
    ) -> None:
        name = await make_collection()
        taken = 0

        def examples(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
            @self.examples(0.15)
            @given(st.lists(steps(), min_size=STEPS, max_size=2 * STEPS))
            def play(script: list[Step]) -> None:
                nonlocal taken
                taken += len(script)
                run(replay(store, name, script))

            play()

        await run_examples(examples)
        record_property("steps", taken)
        assert taken >= STEPS
