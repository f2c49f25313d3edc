"""A catalog and blobs in memory, with the fences of the real ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from rag.core.catalog import Attempt, BlobRef, CollectionView, Garbage, IndexStatistics, Publication
from rag.core.errors import BlobError, SupersededError
from rag.core.media import TEXT
from rag.core.records import CollectionSpec
from rag.core.types import Scope

PHYSICAL = "c_1"
TENANT = "acme"
SCOPE = Scope(tenant=TENANT, groups=None)


class MemoryBlobs:
    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    async def put(self, scope: Scope, content: bytes) -> BlobRef:
        ref = BlobRef(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        self.contents[ref.sha256] = content
        return ref

    async def get(self, scope: Scope, ref: BlobRef) -> bytes:
        if ref.sha256 not in self.contents:
            raise BlobError
        return self.contents[ref.sha256]

    async def delete(self, scope: Scope, ref: BlobRef) -> None:
        self.contents.pop(ref.sha256, None)


@dataclass
class Row:
    blob: BlobRef
    media_type: str = TEXT
    source: str = "notes.txt"
    state: str = "queued"
    attempt: int = 0
    generation: int | None = None
    code: str | None = None
    history: list[Mapping[str, Any]] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    publication: Publication | None = None
    fresh: bool = False
    claimed: int | None = None


class MemoryCatalog:
    """``before_publish`` runs at the start of each publish; ``commits`` holds the size of each."""

    def __init__(self, *, dimension: int, model: str, statistics: IndexStatistics | None = None) -> None:
        self.view = CollectionView(
            id=uuid4(), name="docs", tenant=TENANT, physical=PHYSICAL, embedding_model=model,
            spec=CollectionSpec(dimension=dimension), epoch=0, statistics=statistics or IndexStatistics(),
        )  # fmt: skip
        self.rows: dict[UUID, Row] = {}
        self.commits: list[int] = []
        self.error: Exception | None = None
        self.pending: list[Garbage] = []
        self.postponed: list[Garbage] = []
        self.released: list[int] = []
        self.results: dict[tuple[str, str, str], tuple[bytes, float]] = {}
        self._generations = 0

    def add(self, blob: BlobRef, *, media_type: str = TEXT, source: str = "notes.txt") -> UUID:
        document = uuid4()
        self.rows[document] = Row(blob=blob, media_type=media_type, source=source)
        return document

    async def claim(self, tenant: str, document: UUID) -> Attempt | None:
        row = self.rows.get(document)
        if row is None or row.state not in ("queued", "running"):
            return None
        return self._claimed(document, row, state="running")

    async def claim_promotion(self, tenant: str, document: UUID) -> Attempt | None:
        row = self.rows.get(document)
        if row is None or row.publication is None or not row.publication.quality.degraded:
            return None
        return self._claimed(document, row, state=row.state)

    def _claimed(self, document: UUID, row: Row, *, state: str) -> Attempt:
        self._generations += 1
        row.attempt += 1
        row.state, row.claimed = state, self._generations
        promotion = state == "published"
        return Attempt(
            document=document, scope=SCOPE, collection=self.view, attempt=row.attempt,
            generation=self._generations, base_generation=row.generation, source=row.source,
            media_type=row.media_type, blob=row.blob, metadata={}, acl=(), promotion=promotion,
            fresh=promotion or row.fresh,
        )  # fmt: skip

    def _owns(self, attempt: Attempt) -> bool:
        row = self.rows.get(attempt.document)
        state = "published" if attempt.promotion else "running"
        return row is not None and (row.state, row.attempt, row.claimed) == (state, attempt.attempt, attempt.generation)

    async def held(self, attempts: Sequence[Attempt]) -> set[int]:
        return {each.generation for each in attempts if self._owns(each)}

    async def keep_result(self, scope: Scope, blob: BlobRef, media_type: str, result: bytes, *, ttl: float) -> None:
        self.results[scope.tenant, blob.sha256, media_type] = (result, ttl)

    async def kept_result(self, scope: Scope, blob: BlobRef, media_type: str) -> bytes | None:
        kept = self.results.get((scope.tenant, blob.sha256, media_type))
        return None if kept is None else kept[0]

    async def stage(self, attempt: Attempt, stage: str) -> None:
        if not self._owns(attempt):
            raise SupersededError
        self.rows[attempt.document].stages.append(stage)

    async def publish(self, publications: Sequence[Publication]) -> list[bool]:
        if self.error is not None:
            raise self.error
        self.commits.append(len(publications))
        won = [self._owns(each.attempt) for each in publications]
        for each, mine in zip(publications, won, strict=True):
            if mine:
                row = self.rows[each.attempt.document]
                row.state, row.generation, row.publication = "published", each.attempt.generation, each
                row.code, row.claimed = each.fault, None
        return won

    async def fail(self, attempt: Attempt, *, code: str, message: str, history: Sequence[Mapping[str, Any]]) -> None:
        if self._owns(attempt):
            row = self.rows[attempt.document]
            row.history, row.claimed = list(history), None
            if not attempt.promotion:
                row.state, row.code = "failed", code

    async def release(self, attempt: Attempt) -> None:
        if self._owns(attempt):
            self.released.append(attempt.generation)
            if not attempt.promotion:
                self.rows[attempt.document].state = "queued"

    async def garbage(self, *, limit: int) -> list[Garbage]:
        return self.pending[:limit]

    async def postpone(self, ids: Sequence[int]) -> None:
        self.postponed += [entry for entry in self.pending if entry.id in ids]
        self.pending = [entry for entry in self.pending if entry.id not in ids]

    async def swept(self, ids: Sequence[int]) -> None:
        self.pending = [entry for entry in self.pending if entry.id not in ids]
