"""The port's calls by name, so that a test can make each of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from rag.core.filters import Filter
from rag.core.ports import VectorStore
from rag.core.records import ByIds, Feature, Hit, RecordBatch
from rag.core.types import Scope
from stores.testing.records import SCOPE, document_of, record, records, vector

Call = Callable[[VectorStore, str], Awaitable[Any]]
Offer = TypeVar("Offer")

NEEDS_LEXICAL = frozenset({"lexical_search", "hybrid_search"})


class Search(Protocol):
    """One of the searches, for the vector ``vector(1)`` and the term 7, which all records have."""

    async def __call__(
        self, store: VectorStore, name: str, scope: Scope = SCOPE, *, limit: int = 5, filter: Filter | None = None
    ) -> list[Hit]:
        """The hits."""
        ...


async def _search(
    store: VectorStore, name: str, scope: Scope = SCOPE, *, limit: int = 5, filter: Filter | None = None
) -> list[Hit]:
    return await store.search(name, scope, vector(1), limit=limit, filter=filter)


async def _search_many(
    store: VectorStore, name: str, scope: Scope = SCOPE, *, limit: int = 5, filter: Filter | None = None
) -> list[Hit]:
    (hits,) = await store.search_many(name, scope, vector(1).reshape(1, -1), limit=limit, filter=filter)
    return hits


async def _lexical_search(
    store: VectorStore, name: str, scope: Scope = SCOPE, *, limit: int = 5, filter: Filter | None = None
) -> list[Hit]:
    return await store.lexical_search(name, scope, {7: 1.0}, limit=limit, filter=filter)


async def _hybrid_search(
    store: VectorStore, name: str, scope: Scope = SCOPE, *, limit: int = 5, filter: Filter | None = None
) -> list[Hit]:
    return await store.hybrid_search(name, scope, vector(1), {7: 1.0}, limit=limit, filter=filter)


SEARCHES: dict[str, Search] = {
    "search": _search,
    "search_many": _search_many,
    "lexical_search": _lexical_search,
    "hybrid_search": _hybrid_search,
}
EVERY_CALL: dict[str, Call] = {
    **SEARCHES,
    "describe": lambda store, name: store.describe_collection(name),
    "upsert": lambda store, name: store.upsert(name, SCOPE, RecordBatch.of(records(1))),
    "update_metadata": lambda store, name: store.update_metadata(name, SCOPE, document_of("manual"), {}),
    "get": lambda store, name: store.get(name, SCOPE, [record(0).id]),
    "delete": lambda store, name: store.delete(name, SCOPE, ByIds(ids=(record(0).id,))),
    "count": lambda store, name: store.count(name, SCOPE),
    "scroll": lambda store, name: anext(aiter(store.scroll(name, SCOPE))),
    "wait_indexed": lambda store, name: store.wait_indexed(name, timeout=5.0),
    "stats": lambda store, name: store.stats(name),
}


def offered(store: VectorStore, calls: Mapping[str, Offer]) -> dict[str, Offer]:
    """Those of the calls that the store's capabilities include."""
    lexical = Feature.LEXICAL in store.capabilities.features
    return {name: call for name, call in calls.items() if lexical or name not in NEEDS_LEXICAL}


def filtered_calls(filter: Filter) -> dict[str, Call]:
    """Every call that takes a filter, with ``filter``."""

    def searching(search: Search) -> Call:
        return lambda store, name: search(store, name, filter=filter)

    return {
        **{name: searching(search) for name, search in SEARCHES.items()},
        "count": lambda store, name: store.count(name, SCOPE, filter),
        "delete": lambda store, name: store.delete(name, SCOPE, filter),
        "scroll": lambda store, name: anext(aiter(store.scroll(name, SCOPE, selector=filter)), None),
    }
