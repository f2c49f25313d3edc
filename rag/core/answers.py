"""What a search and an answer are made of, and what a chat model is told and says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from rag.core.records import Hit
from rag.core.types import Quality


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens counted by the generator."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of a streamed completion; the last one carries ``finish_reason`` and ``usage``."""

    text: str
    finish_reason: str | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A claim's anchor: ``quote`` is the text at [start, end) of the cited document's parsed text."""

    marker: int
    document: UUID
    source: str
    title: str | None
    page: int | None
    start: int
    end: int
    quote: str
    quality: Quality
    origin: Literal["model", "matched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A stage that does not apply to this query, and why; no error, cacheable."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search gives: hits best first, what failed, what did not apply, seconds by stage.

    ``shortfall`` is true when fewer hits than asked for were left after verification.
    """

    hits: tuple[Hit, ...]
    degraded: tuple[str, ...] = ()
    skipped: tuple[Skip, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    shortfall: bool = False
    epoch: int = 0
    documents: Mapping[UUID, DocumentLabel] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLabel:
    """What a reader is told of a document that a hit or citation names."""

    source: str
    title: str | None
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A finished answer with its evidence."""

    text: str
    citations: tuple[Citation, ...]
    search: SearchResult
    degraded: tuple[str, ...] = ()
    skipped: tuple[Skip, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    usage: Usage = Usage()
    invalid_markers: int = 0
    finish_reason: str | None = None
