"""Who works next: a bounded number at a time, tenants in turn, within a bounded number of bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """``count`` at a time; of those that wait, one of each tenant after the other, each tenant's in their order."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def hold(self, tenant: str) -> AsyncIterator[None]:
        """Hold a slot."""
        await self._take(tenant)
        try:
            yield
        finally:
            self._pass_on()

    async def _take(self, tenant: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            tenant = next(iter(self._waiting))
            waiting = self._waiting.pop(tenant)
            turn = waiting.popleft()
            if waiting:
                self._waiting[tenant] = waiting
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class ByteBudget:
    """At most ``total`` bytes are held at once; what is larger by itself is held alone. First come, first served."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._held = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold ``size`` bytes."""
        size = min(size, self._total)
        await self._take(size)
        try:
            yield
        finally:
            self._give(size)

    async def _take(self, size: int) -> None:
        if not self._waiting and self._held + size <= self._total:
            self._held += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, size))
        try:
            await turn
        except asyncio.CancelledError:
            self._give(size if turn.done() and not turn.cancelled() else 0)
            raise

    def _give(self, size: int) -> None:
        self._held -= size
        while self._waiting:
            turn, wanted = self._waiting[0]
            if not turn.done():
                if self._held + wanted > self._total:
                    return
                self._held += wanted
                turn.set_result(None)
            self._waiting.popleft()
