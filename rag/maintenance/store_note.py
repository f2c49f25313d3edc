"""Which store the data is indexed in: another one would answer as if there were nothing."""

from __future__ import annotations

from rag.catalog.inspection import StoreNote
from rag.catalog.restoration import Restoration
from rag.core.errors import CollectionNotFoundError, StoreChangedError
from rag.core.ports import VectorStore
from rag.maintenance.parts import limited

_MOVE = "`anchorage rebuild --all --yes` indexes everything in the new one"
_MOST_ASKED_FOR = 5


def require_store_of(noted: StoreNote | None, configured: StoreNote) -> None:
    """Raise ``StoreChangedError`` where collections are indexed in a store of another kind."""
    if noted is not None and noted.kind != configured.kind:
        raise StoreChangedError(
            f"the collections are indexed in the store {noted.kind!r}, and {configured.kind!r} is configured; {_MOVE}"
        )


async def confirm_store(catalog: Restoration, store: VectorStore, configured: StoreNote) -> None:
    """Keep which store it is. Raises ``StoreChangedError`` where it lies elsewhere and knows no collection of ours."""
    noted = await catalog.noted_store()
    require_store_of(noted, configured)
    if noted is not None and noted.location != configured.location and not await _knows_ours(catalog, store):
        raise StoreChangedError(
            f"the collections are indexed in the store at {noted.location}, and the one at {configured.location} knows "
            f"none of them; {_MOVE}"
        )
    if noted != configured:
        await catalog.note_store(configured)


async def _knows_ours(catalog: Restoration, store: VectorStore) -> bool:
    """Whether the store has one of our collections: a server that moved with its data has."""
    for each in (await catalog.inspected_collections())[:_MOST_ASKED_FOR]:
        try:
            await limited(store.describe_collection(each.physical))
        except CollectionNotFoundError:
            continue
        return True
    return False
