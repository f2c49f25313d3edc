"""Three tenants over one collection: random steps, each compared with the exact store's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from uuid import UUID

from hypothesis import strategies as st

from rag.core.filters import And, Compare, Filter, Not
from rag.core.ports import Selector, VectorStore
from rag.core.records import ByDocument, ByIds, Record
from rag.core.types import Scope
from stores.testing.calls import SEARCHES, offered
from stores.testing.records import document_of, everything, oracle, record, write

TENANTS = ("acme", "rival", "ac'me")
NUMBERS = 6
WRITES = ("write", "write", "write", "delete ids", "delete document", "delete filter", "update")
READS = ("get", "count", "scroll", "search", "search_many", "lexical_search", "hybrid_search")

Shared: TypeAlias = Literal["shared", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one tenant does, and to which of its records; a ``shared`` id is used by all tenants."""

    kind: str
    tenant: str
    number: int
    ids: Shared
    filtered: bool


def steps() -> st.SearchStrategy[Step]:
    """Writes and reads of any tenant."""
    return st.builds(
        Step,
        kind=st.sampled_from(WRITES + READS),
        tenant=st.sampled_from(TENANTS),
        number=st.integers(0, NUMBERS - 1),
        ids=st.sampled_from(("shared", "own")),
        filtered=st.booleans(),
    )


async def replay(store: VectorStore, name: str, script: Sequence[Step]) -> None:
    """Run the steps on the store and on the exact store: each gives the same, and each tenant has the same left."""
    memory = await oracle([])
    for tenant in TENANTS:
        await store.delete(name, _scope(tenant), And(filters=()))
    assert [await store.count(name, _scope(tenant)) for tenant in TENANTS] == [0, 0, 0]
    reads = offered(store, dict.fromkeys(READS))
    for step in (step for step in script if step.kind in reads or step.kind not in READS):
        assert await _take(store, name, step) == await _take(memory, "oracle", step), step
    for tenant in TENANTS:
        mine = Step(kind="", tenant=tenant, number=0, ids="own", filtered=False)
        for kind in reads:
            assert await _read(store, name, mine, kind) == await _read(memory, "oracle", mine, kind), (tenant, kind)


async def _take(store: VectorStore, name: str, step: Step) -> Any:
    if step.kind in READS:
        return await _read(store, name, step, step.kind)
    return await _write(store, name, step)


async def _write(store: VectorStore, name: str, step: Step) -> None:
    scope = _scope(step.tenant)
    match step.kind:
        case "write":
            await write(store, name, [_record(step)])
        case "delete ids":
            await store.delete(name, scope, ByIds(ids=tuple(_ids()[: 3 * step.number + 1])))
        case "delete document":
            await store.delete(name, scope, _document(step))
        case "delete filter":
            await store.delete(name, scope, _filter(step))
        case _:
            await store.update_metadata(name, scope, _document(step).document, {"year": step.number})


async def _read(store: VectorStore, name: str, step: Step, kind: str) -> Any:
    scope = _scope(step.tenant)
    match kind:
        case "get":
            return [_key(one) for one in await store.get(name, scope, _ids())]
        case "count":
            selector: Selector = _filter(step) if step.filtered else _document(step)
            return await store.count(name, scope), await store.count(name, scope, selector)
        case "scroll":
            return [_key(one) for one in await everything(store, name, scope)]
        case _:
            filter = _filter(step) if step.filtered else None
            hits = await SEARCHES[kind](store, name, scope, limit=50, filter=filter)
            return sorted((hit.id, hit.text, sorted(hit.metadata.items())) for hit in hits)


def _scope(tenant: str) -> Scope:
    return Scope(tenant=tenant, groups=None)


def _record(step: Step) -> Record:
    given: dict[str, Any] = {"text": step.tenant, "metadata": {"year": step.number}}
    if step.ids == "shared":
        given["id"] = _shared(step.number)
    return record(step.number, tenant=step.tenant, document=_name(step), **given)


def _document(step: Step) -> ByDocument:
    return ByDocument(document=document_of(_name(step)), generation=1 if step.ids == "own" else None)


def _filter(step: Step) -> Filter:
    """One that a store with the tenant in the wrong place of a negation gets wrong."""
    late = Compare(operator="gt", key="year", value=step.number)
    return Not(filter=late) if step.ids == "own" else late


def _name(step: Step) -> str:
    return "even" if step.number % 2 == 0 else "odd"


def _ids() -> list[UUID]:
    """Every id that any tenant writes."""
    own = [
        record(number, tenant=tenant, document="odd" if number % 2 else "even").id
        for number in range(NUMBERS)
        for tenant in TENANTS
    ]
    return [*(_shared(number) for number in range(NUMBERS)), *own]


def _shared(number: int) -> UUID:
    return UUID(int=1000 + number)


def _key(one: Record) -> tuple[Any, ...]:
    return one.id, one.tenant, one.text, sorted(one.metadata.items())
