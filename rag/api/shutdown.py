"""How requests learn that the service is going down."""

from __future__ import annotations

import asyncio

from rag.core.errors import CapacityError


class Shutdown:
    """Two steps: ``drain`` turns readiness off, ``close`` ends what still runs."""

    def __init__(self) -> None:
        self.closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.draining = False

    def drain(self) -> None:
        """From now on the service says that it is not ready; running requests go on."""
        self.draining = True

    def close(self) -> None:
        """End running requests and streams with an error that a client can read."""
        self.draining = True
        if not self.closing.done():
            self.closing.set_result(None)


def shutting_down() -> CapacityError:
    """What a request is told that the shutdown interrupts."""
    return CapacityError("the service is shutting down", retry_after=5)
