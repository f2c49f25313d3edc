"""Makes documents current, several of one collection in one commit: every commit ends all its cached answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeAlias

from rag.core.catalog import Publication
from rag.core.errors import CapacityError

MAX_WAITING = 1024
MAX_COMMIT = 64

_Lane: TypeAlias = list[tuple[Publication, "asyncio.Future[bool]"]]


class PublishingCatalog(Protocol):
    """The slice of the catalog that publishing takes."""

    async def publish(self, publications: Sequence[Publication]) -> list[bool]:
        """See ``IngestCatalog``."""
        ...


class Publisher:
    """One lane a collection: the first publication goes at once, later ones gather until the interval is over.

    Made by :func:`open_publisher`, which owns the tasks.
    """

    def __init__(self, catalog: PublishingCatalog, *, interval: float) -> None:
        self._catalog = catalog
        self._interval = interval
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def publish(self, publication: Publication) -> bool:
        """Whether the document is current now; ``False`` when its attempt lost its right.

        Raises what the catalog raises, or ``CapacityError`` when ``MAX_WAITING`` publications wait.
        """
        attempt = publication.attempt
        key = (attempt.scope.tenant, attempt.collection.physical)
        lane = self._lanes.get(key)
        if lane is not None and len(lane) >= MAX_WAITING:
            raise CapacityError("too many documents wait to be published", retry_after=self._interval)
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if lane is None:
            lane = self._lanes[key] = []
            task = asyncio.create_task(self._drain(key, lane), name="publish")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        lane.append((publication, future))
        return await future

    async def _drain(self, key: tuple[str, str], lane: _Lane) -> None:
        try:
            while lane:
                batch = [entry for entry in lane[:MAX_COMMIT] if not entry[1].done()]
                del lane[:MAX_COMMIT]
                await self._commit(batch)
                await asyncio.sleep(self._interval)
        finally:
            del self._lanes[key]
            for _, future in lane:
                future.cancel()

    async def _commit(self, batch: _Lane) -> None:
        if not batch:
            return
        try:
            outcomes = await self._catalog.publish([publication for publication, _ in batch])
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  it belongs to those who wait for the outcome
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)

    async def close(self) -> None:
        """End every lane; who still waits is cancelled."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))


@asynccontextmanager
async def open_publisher(catalog: PublishingCatalog, *, interval: float) -> AsyncIterator[Publisher]:
    """A publisher that commits at most once in ``interval`` seconds for each collection."""
    publisher = Publisher(catalog, interval=interval)
    try:
        yield publisher
    finally:
        await publisher.close()
