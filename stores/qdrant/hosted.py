"""The collections of the embedded engine's host process, and the indexes that it builds for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from rag.core.errors import CollectionNotFoundError, StoreError
from rag.core.records import CollectionSpec, StoreStats
from stores.qdrant.building import build, copy_folder
from stores.qdrant.shard import FILE, Collection

TICK_SECONDS = 1.0
_QUIET_TICKS = 2
_FLUSH_TICKS = 5
_FRESH_SHARE = 10
_IMPATIENCE = 4
_BLOCK_BYTES = 512
_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Held:
    """An open collection, who writes to it, and the build of its index while there is one."""

    collection: Collection
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    building: asyncio.Task[None] | None = None
    seen_writes: int = 0
    quiet_ticks: int = 0
    unflushed_ticks: int = 0
    given_up_at: int = -1


class Collections:
    """The collections under one folder, opened when they are first asked for.

    An index is built when ``threshold`` rows, and a tenth of all, lie outside of it and nobody has written for two
    seconds, or when someone waits for it.
    """

    def __init__(self, folder: Path, *, threshold: int) -> None:
        self._folder = folder
        self._threshold = threshold
        self._held: dict[str, Held] = {}
        self._builder = asyncio.Lock()
        self._creating = asyncio.Lock()

    def get(self, name: str) -> Held:
        """The open collection. Raises ``CollectionNotFoundError``."""
        if name in self._held:
            return self._held[name]
        collection = Collection.load(self._folder / name)
        if collection is None:
            raise CollectionNotFoundError(f"no collection {name}")
        held = self._held[name] = Held(collection=collection)
        return held

    async def create(self, name: str, spec: CollectionSpec) -> bool:
        """Make it; ``False`` where it is there."""
        async with self._creating:
            if name in self._held or (self._folder / name / FILE).exists():
                return False
            self._held[name] = Held(collection=await Collection.create(self._folder / name, spec))
            return True

    async def drop(self, name: str) -> None:
        """Drop it, and stop the building of its index; a missing one is a no-op."""
        try:
            held = self.get(name)
        except CollectionNotFoundError:
            return
        async with self.writing(name, held):
            await _stopped(held)
            if self._held.pop(name, None) is held:
                held.collection.drop()

    @contextlib.asynccontextmanager
    async def writing(self, name: str, held: Held) -> AsyncIterator[Collection]:
        """The right to write to it; raises ``CollectionNotFoundError`` where it was dropped in the meantime."""
        async with held.writing:
            if self._held.get(name) is not held:
                raise CollectionNotFoundError(f"no collection {name}")
            yield held.collection

    def stats(self, name: str) -> StoreStats:
        """Rows, indexed rows and bytes on the disk."""
        collection = self.get(name).collection
        rows = collection.rows
        indexed = rows if rows < self._threshold else max(0, rows - collection.fresh)
        return StoreStats(rows=rows, indexed=indexed, bytes=_disk_bytes(collection.shard_folder))

    async def wait_indexed(self, name: str) -> None:
        """Return when an index covers what was there at the call; small collections have none."""
        held = self.get(name)
        if held.building:
            await _outcome(name, held.building)
        if held.collection.rows >= self._threshold and held.collection.fresh:
            await _outcome(name, self._start(name, held))

    async def tend(self) -> None:
        """Flush what was written, and build indexes that are due; runs until it is cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for name, held in list(self._held.items()):
                try:
                    self._tend_one(name, held)
                except Exception:  # the engine has no class of its own for its errors
                    _logger.exception("a collection could not be flushed", extra={"action": "flush_failed"})

    async def stop_building(self) -> None:
        """Give up the indexes that are being built; who waits for one is told."""
        for held in list(self._held.values()):
            await _stopped(held)

    async def close(self) -> None:
        """Stop what is being built and let all folders go."""
        await self.stop_building()
        for held in self._held.values():
            held.collection.close()
        self._held.clear()

    def _tend_one(self, name: str, held: Held) -> None:
        collection = held.collection
        quiet = collection.writes == held.seen_writes
        held.quiet_ticks = held.quiet_ticks + 1 if quiet else 0
        held.seen_writes = collection.writes
        held.unflushed_ticks = 0 if quiet else held.unflushed_ticks + 1
        if quiet or held.unflushed_ticks % _FLUSH_TICKS == 0:
            collection.flush()
        due = max(self._threshold, collection.rows // _FRESH_SHARE)
        waited = held.quiet_ticks >= _QUIET_TICKS or collection.fresh >= _IMPATIENCE * due
        if waited and collection.fresh >= due and not held.building and held.given_up_at != collection.writes:
            self._start(name, held)

    def _start(self, name: str, held: Held) -> asyncio.Task[None]:
        if held.building is None:
            held.building = asyncio.create_task(self._build(name, held), name=f"index of {name}")
            held.building.add_done_callback(lambda task: _finished(held, task))
        return held.building

    async def _build(self, name: str, held: Held) -> None:
        """Build on a copy while the shard serves and takes writes, catch up with those, and serve from the copy."""
        collection = held.collection
        async with self._builder:
            with collection.copying() as copy:
                async with self.writing(name, held):
                    fresh, rows = collection.fresh, collection.rows
                    collection.flush()
                    await copy_folder(collection.shard_folder, copy)
                await build(copy, collection.spec)
                built = collection.open_copy(copy)
                while collection.catch_up(built):  # noqa: ASYNC110  others are served between the steps
                    await asyncio.sleep(0)
                collection.swap(built, copy, indexed=rows, fresh=collection.fresh - fresh)
            _logger.info("an index was built", extra={"action": "index_built", "rows": rows})


def prepare(folder: Path) -> None:
    """Make the folder, and remove collections that were never completely made or only half removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in folder.iterdir():
        if each.is_dir() and not (each / FILE).exists():
            shutil.rmtree(each, ignore_errors=True)


def _disk_bytes(folder: Path) -> int:
    """What the files take, holes left out; the engine may be replacing some of them."""
    taken = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                taken += Path(place, name).stat().st_blocks * _BLOCK_BYTES
    return taken


async def _outcome(name: str, building: asyncio.Task[None]) -> None:
    await asyncio.wait({building})
    if building.cancelled():
        raise StoreError(f"the building of the index of {name} was given up")
    building.result()


async def _stopped(held: Held) -> None:
    if task := held.building:
        task.cancel()
        await asyncio.wait({task})


def _finished(held: Held, task: asyncio.Task[None]) -> None:
    held.building = None
    if not task.cancelled() and (error := task.exception()):
        held.given_up_at = held.collection.writes
        _logger.error("an index was not built: %s", error, extra={"action": "index_build_failed"})
