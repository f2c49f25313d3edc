"""What is compared, and how a suspicion becomes certain beside a service that keeps changing all of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from rag.blobs import FileBlobs
from rag.catalog.catalog import Catalog
from rag.catalog.inspection import InspectedDocument
from rag.core.errors import StoreError
from rag.core.ports import VectorStore
from rag.core.types import Scope

STORE_SECONDS = 120.0
"""What one call of the store may take."""

_Answer = TypeVar("_Answer")
_Wrong = TypeVar("_Wrong")

Look: TypeAlias = Callable[[InspectedDocument], Awaitable[_Wrong | None]]
"""Says what is wrong with a document; ``None``: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a service that is looked into. ``moment``: seconds before a suspect is looked at again."""

    catalog: Catalog
    store: VectorStore
    blobs: FileBlobs
    data_dir: Path
    moment: float = 0.5
    looked: Counter[str] = field(default_factory=Counter)

    async def confirmed(
        self, suspects: Sequence[InspectedDocument], look: Look[_Wrong]
    ) -> list[tuple[InspectedDocument, _Wrong]]:
        """Those in which ``look`` finds something wrong while the catalog says the same before and after.

        What a document loses, it loses after the catalog changed: so what is wrong between two equal answers of
        the catalog is no change under way.
        """
        if not suspects:
            return []
        await asyncio.sleep(self.moment)
        tenant = suspects[0].tenant
        before = await self.catalog.inspected_documents(tenant, [each.id for each in suspects])
        looked = [(document, await look(document)) for document in before.values()]
        wrong = [(document, what) for document, what in looked if what is not None]
        after = await self.catalog.inspected_documents(tenant, [document.id for document, _ in wrong])
        return [(document, what) for document, what in wrong if after.get(document.id) == document]


def service_of(tenant: str) -> Scope:
    """The service itself on behalf of a tenant."""
    return Scope(tenant=tenant, groups=None)


async def limited(call: Awaitable[_Answer]) -> _Answer:
    """The answer of a store; raises ``StoreError`` when it takes longer than ``STORE_SECONDS``."""
    try:
        async with asyncio.timeout(STORE_SECONDS):
            return await call
    except TimeoutError:
        raise StoreError(f"the store did not answer within {STORE_SECONDS:.0f} s") from None
