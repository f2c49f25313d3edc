"""What doctor and rebuild look into: the storage of a service, which may run or not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rag.blobs import FileBlobs
from rag.core.errors import ConfigurationError
from rag.maintenance import Parts
from rag.settings import Settings
from rag.wiring.storage import open_storage

_PRIVATE = "memory"


@asynccontextmanager
async def open_parts(settings: Settings, *, moving: bool = False) -> AsyncIterator[Parts]:
    """The parts of these settings' service; those that a running one owns are shared with it.

    ``moving``: the collections may be indexed in another store. Raises as ``open_storage``, and
    ``ConfigurationError`` for a store that only its service sees.
    """
    if settings.store.kind == _PRIVATE:
        raise ConfigurationError(f"the store {_PRIVATE!r} lies in its service's own memory: nobody else sees into it")
    async with open_storage(settings, moving=moving) as storage:
        if not isinstance(storage.blobs, FileBlobs):
            raise ConfigurationError("blobs that are no files cannot be looked into")
        yield Parts(
            catalog=storage.catalog, store=storage.store, blobs=storage.blobs, data_dir=settings.data_dir.absolute()
        )
