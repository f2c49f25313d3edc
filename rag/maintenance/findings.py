"""What the doctor finds, in plain words, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias


class Outcome(StrEnum):
    """What a repair came to: ``QUEUED`` is mended once the worker has ingested it."""

    MENDED = "mended"
    QUEUED = "queued"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A kind of finding: what it means, and what ``--repair`` does about it."""

    means: str
    repair: str


_AGAIN = "queues them to be ingested again from their originals; what is served stays served until then"
_UPLOAD = "upload the same file again"

DESCRIPTIONS: Mapping[str, Description] = {
    "collection_missing": Description(
        means="the store has no such physical collection", repair=f"creates it and, for its documents, {_AGAIN}"
    ),
    "collection_differs": Description(
        means="the physical collection in the store is of another specification",
        repair=f"creates it anew and, for its documents, {_AGAIN}",
    ),
    "records_missing": Description(means="documents have fewer records in the store than chunks", repair=_AGAIN),
    "records_surplus": Description(means="documents have more records in the store than chunks", repair=_AGAIN),
    "records_orphaned": Description(
        means="records in the store belong to no document, or to a generation that is served no longer",
        repair="deletes them from the store",
    ),
    "records_foreign": Description(
        means="records in the store bear another tenant than the collection's; no request sees them",
        repair="cannot reach them: delete them with the store's own tools",
    ),
    "metadata_differs": Description(
        means="records have other metadata than their documents", repair="writes the catalog's metadata to the store"
    ),
    "acl_differs": Description(means="records may be read by other groups than their documents", repair=_AGAIN),
    "original_missing": Description(
        means="the original file is gone; what is served of it stays served, but cannot be made again",
        repair=f"cannot bring it back: {_UPLOAD}",
    ),
    "original_damaged": Description(
        means="the original file is not what was uploaded; what is served of it stays served, but cannot be made again",
        repair=f"puts the damaged file aside; then {_UPLOAD}",
    ),
    "text_missing": Description(means="the parsed text is gone", repair=_AGAIN),
    "text_damaged": Description(means="the parsed text is not what was written", repair=_AGAIN),
    "blob_unreferenced": Description(means="files that no document refers to", repair="deletes them"),
    "document_jobless": Description(
        means="documents wait to be ingested, but no job will do it", repair="gives each a job"
    ),
    "statistics_differ": Description(
        means="figures of the lexical statistics are not what the served documents add up to",
        repair="counts them anew",
    ),
    "document_uncounted": Description(means="documents are served without being in the statistics", repair=_AGAIN),
    "leftover_file": Description(means="files that an ended service left in run/", repair="deletes them"),
}
"""Every kind of finding by its stable code."""

Mend: TypeAlias = Callable[[], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong, confirmed by a second look; ``count`` things where it stands for several."""

    code: str
    where: str
    example: str
    mend: Mend
    count: int = 1


@dataclass(slots=True, kw_only=True)
class Finding:
    """All faults of one kind in one place, which is a collection's name or the data folder."""

    code: str
    where: str
    most: int
    count: int = 0
    examples: list[str] = field(default_factory=list)
    outcomes: Counter[Outcome] = field(default_factory=Counter)

    def add(self, fault: Fault, outcome: Outcome | None) -> None:
        """Count a fault in; at most ``most`` examples are kept."""
        self.count += fault.count
        if len(self.examples) < self.most:
            self.examples.append(fault.example)
        if outcome is not None:
            self.outcomes[outcome] += fault.count

    @property
    def left(self) -> int:
        """How much of it is neither mended nor about to be."""
        return self.count - self.outcomes[Outcome.MENDED] - self.outcomes[Outcome.QUEUED]

    @property
    def open(self) -> bool:
        """Whether something of it is neither mended nor about to be."""
        return self.left > 0

    def as_json(self) -> dict[str, Any]:
        """The finding as JSON values."""
        description = DESCRIPTIONS[self.code]
        return {
            "code": self.code,
            "where": self.where,
            "count": self.count,
            "means": description.means,
            "repair": description.repair,
            "examples": list(self.examples),
            "mended": self.outcomes[Outcome.MENDED],
            "queued": self.outcomes[Outcome.QUEUED],
            "left": self.left,
        }


@dataclass(slots=True, kw_only=True)
class Report:
    """Everything that was found, and how much was looked at."""

    most: int = 3
    looked: Counter[str] = field(default_factory=Counter)
    found: dict[tuple[str, str], Finding] = field(default_factory=dict)

    def add(self, fault: Fault, outcome: Outcome | None) -> None:
        """Count a fault in; ``outcome`` is ``None`` when nothing was to be repaired."""
        key = (fault.where, fault.code)
        self.found.setdefault(key, Finding(code=fault.code, where=fault.where, most=self.most)).add(fault, outcome)

    @property
    def findings(self) -> list[Finding]:
        """In the order in which they were met."""
        return list(self.found.values())

    @property
    def open(self) -> bool:
        """Whether something was found that is neither mended nor about to be."""
        return any(finding.open for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        findings = [finding.as_json() for finding in self.findings]
        return {"ok": not self.open, "looked_at": dict(self.looked), "findings": findings}
