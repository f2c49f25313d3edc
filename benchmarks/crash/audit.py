"""What is there once everything has come to rest, compared with what was asked for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from uuid import UUID

from benchmarks.crash.documents import BROKEN, are_of_one_version, is_whole
from benchmarks.crash.library import COLLECTION, Wanted
from rag.core.catalog import DocumentView
from rag.core.errors import AnchorageError
from rag.core.records import Record
from rag.core.types import DocumentState, Quality, Scope
from rag.maintenance import Doctor, Parts

REST_SECONDS = 120.0
_PAUSE = 0.1
_PAGE = 200
_SCOPE = Scope(groups=None)
_MOMENT = 0.2


@dataclass(slots=True)
class Findings:
    """Faults by kind, each in words."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    half: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    documents: int = 0

    def add(self, more: Findings) -> None:
        """Count another audit in."""
        self.lost += more.lost
        self.doubled += more.doubled
        self.half += more.half
        self.other += more.other
        self.documents += more.documents


async def audit(parts: Parts, wanted: Mapping[str, Wanted]) -> Findings:
    """Wait until nothing is under way; then compare documents, texts, records and figures."""
    restless = await _until_at_rest(parts)
    documents = await _documents(parts)
    findings = Findings(documents=len(documents))
    if restless is not None:
        findings.lost.append(f"not finished after {REST_SECONDS:.0f} s: {restless}")
    there = Counter(document.source for document in documents)
    findings.lost += [f"{source}: gone" for source in wanted.keys() - there.keys()]
    findings.doubled += [f"{source}: {number} times" for source, number in there.items() if number > 1]
    findings.doubled += [f"{source}: deleted, and there" for source in there.keys() - wanted.keys()]
    for document in documents:
        if document.source in wanted:
            findings.lost += await _wrong_with(parts, document, wanted[document.source])
    await _compare_records(parts, documents, wanted, findings)
    findings.other += await _faults(parts)
    return findings


async def _until_at_rest(parts: Parts) -> str | None:
    """What is still under way when the patience ends; ``None``: nothing."""
    ends = time.monotonic() + REST_SECONDS
    under_way: str | None = "the catalog does not answer"
    while under_way is not None and time.monotonic() < ends:
        await asyncio.sleep(_PAUSE)
        try:
            under_way = await _under_way(parts)
        except AnchorageError as error:
            under_way = error.message
    return under_way


async def _under_way(parts: Parts) -> str | None:
    for document in await _documents(parts):
        if not document.state.terminal or (document.quality is not None and document.quality.degraded):
            return f"{document.source} is {document.state}, {document.quality}"
    if garbage := await parts.catalog.garbage(limit=1):
        return f"garbage {garbage[0].id} is left"
    jobs = await parts.catalog.jobs(stuck_after=3600.0)
    return f"{jobs[0].task} is {jobs[0].status}" if jobs else None


async def _documents(parts: Parts) -> list[DocumentView]:
    documents: list[DocumentView] = []
    cursor: str | None = None
    while True:
        page = await parts.catalog.list_documents(_SCOPE, COLLECTION, cursor=cursor, limit=_PAGE)
        documents += page.items
        cursor = page.next
        if cursor is None:
            return documents


async def _wrong_with(parts: Parts, document: DocumentView, wanted: Wanted) -> list[str]:
    """What is served, against the last version that was accepted."""
    state = DocumentState.FAILED if document.source == BROKEN else DocumentState.PUBLISHED
    if document.state is not state:
        return [f"{document.source}: {document.state} ({document.error_code}: {document.error_message})"]
    if dict(document.metadata) != wanted.metadata:
        return [f"{document.source}: metadata {dict(document.metadata)}, not {wanted.metadata}"]
    if document.source == BROKEN:
        return []
    if document.quality is not Quality.FULL:
        return [f"{document.source}: served as {document.quality}"]
    ref = await parts.catalog.text_ref(_SCOPE, COLLECTION, document.id)
    text = (await parts.blobs.get(_SCOPE, ref)).decode() if ref is not None else ""
    return (
        [] if is_whole(text, document.source, wanted.version) else [f"{document.source}: not version {wanted.version}"]
    )


async def _compare_records(
    parts: Parts, documents: list[DocumentView], wanted: Mapping[str, Wanted], findings: Findings
) -> None:
    """Every record belongs to what is served, and a document's are all there, once, and of its version."""
    (collection,) = await parts.catalog.inspected_collections(COLLECTION)
    records: dict[UUID, list[Record]] = defaultdict(list)
    async for batch in parts.store.scroll(collection.physical, _SCOPE):
        for record in batch:
            records[record.document].append(record)
    for document in documents:
        found = sorted(records.pop(document.id, []), key=lambda record: record.index)
        strangers = [record for record in found if record.generation != document.generation]
        findings.doubled += [f"{document.source}: a record of generation {r.generation}" for r in strangers]
        if document.source in wanted and not _fit(document, found, wanted[document.source]):
            findings.half.append(f"{document.source}: {len(found)} records for {document.chunks} chunks")
    findings.doubled += [f"records of {document}, which is not there" for document in records]


def _fit(document: DocumentView, records: list[Record], wanted: Wanted) -> bool:
    whole = [record.index for record in records] == list(range(document.chunks))
    apart = all(earlier.end <= later.start for earlier, later in pairwise(records))
    ours = are_of_one_version([record.text for record in records], document.source)
    current = all(dict(record.metadata) == wanted.metadata for record in records)
    return whole and apart and ours and current


async def _faults(parts: Parts, progress: Callable[[str], None] = lambda _: None) -> list[str]:
    """What the doctor finds."""
    report = await Doctor(replace(parts, moment=_MOMENT), repair=False, progress=progress).examine()
    return [f"doctor: {each.count} {each.code}: {each.examples}" for each in report.findings]
