"""Values that cross the boundaries between parts.

Times are ``datetime`` in UTC, durations are seconds as ``float``, offsets are Unicode code points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""Contiguous float32, shape ``(n, dimension)``."""
Vector: TypeAlias = NDArray[np.float32]
"""Contiguous float32, shape ``(dimension,)``."""
Terms: TypeAlias = Mapping[int, float]
"""Sparse lexical weights: unsigned 32-bit term id to weight."""
Scalar: TypeAlias = str | int | float | bool | datetime
MetadataValue: TypeAlias = Scalar | Sequence[str] | None
Metadata: TypeAlias = Mapping[str, MetadataValue]

EVERY_LANGUAGE = "*"
DEFAULT_TENANT = "default"


class FieldType(StrEnum):
    """Declared type of a filterable metadata field."""

    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATETIME = "datetime"
    STRINGS = "strings"


class Mode(StrEnum):
    """First-stage retrieval."""

    DENSE = "dense"
    LEXICAL = "lexical"
    HYBRID = "hybrid"


class Quality(StrEnum):
    """How much of a document was parsed."""

    FULL = "full"
    SUMMARY = "summary"
    FRAGMENT = "fragment"
    NO_TEXT = "no_text"

    @property
    def degraded(self) -> bool:
        """Whether a longer parse may give more."""
        return self in (Quality.SUMMARY, Quality.FRAGMENT)


class DocumentState(StrEnum):
    """Where a document stands; a deleted document has no state, it is unknown."""

    QUEUED = "queued"
    RUNNING = "running"
    PUBLISHED = "published"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether nothing more happens without a new request."""
        return self not in (DocumentState.QUEUED, DocumentState.RUNNING)


class Priority(StrEnum):
    """Who waits for a model: a person, or the ingest worker. Interactive work goes first."""

    INTERACTIVE = "interactive"
    BULK = "bulk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """On whose behalf a call is made; every store, cache, blob and catalog call takes one.

    ``groups`` are the caller's groups; ``None`` is the service itself, which sees all of the tenant.
    """

    tenant: str = DEFAULT_TENANT
    groups: frozenset[str] | None = frozenset()

    def as_service(self) -> Scope:
        """The same tenant without the limits of a caller's groups; for ingest and deletes."""
        return replace(self, groups=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A parsed piece with its layout; ``start``/``end`` are offsets into the parsed text."""

    start: int
    end: int
    headings: tuple[str, ...] = ()
    page: int | None = None
    kind: Literal["text", "table", "code"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseAttempt:
    """One try at parsing: which parser, in which tier, how long, with what outcome.

    ``unneeded``: a better result came while it ran.
    """

    parser: str
    tier: int
    seconds: float
    outcome: Literal["ok", "timeout", "failed", "killed", "empty", "unneeded"]
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocument:
    """The text of a document, NFC, and where its blocks, headings and pages are.

    A degraded one (``summary``, ``fragment``) says in ``fault`` which code kept it from being full.
    ``structure`` is structured metadata of the source as JSON values: pages, headings, dates, counts.
    """

    text: str
    blocks: tuple[Block, ...]
    title: str | None = None
    quality: Quality = Quality.FULL
    attempts: tuple[ParseAttempt, ...] = ()
    encoding: str | None = None
    fault: str | None = None
    structure: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The unit embedded and retrieved: ``parsed.text[start:end] == text``.

    ``header`` says where it stands, such as title and section; it is indexed with the text, and no part of it.
    """

    index: int
    text: str
    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()
    header: str = ""

    @property
    def indexed(self) -> str:
        """What is embedded and counted for lexical search: the text, below its header where it has one."""
        return f"{self.header}\n{self.text}" if self.header else self.text
