"""What the query path takes and gives: requests, options and the events of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from rag.core.answers import Answer, Citation, Message, SearchResult
from rag.core.types import Mode, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """Limits and budgets of the query path; durations are seconds.

    ``candidates`` is the first stage's page, ``max_candidates`` the largest page that is fetched when
    deleted or replaced documents crowd the top. ``rerank_depth`` hits are reranked.
    """

    max_limit: int = 200
    max_query_characters: int = 8192
    candidates: int = 50
    max_candidates: int = 3200
    ef_search: int = 100
    rerank_depth: int = 20
    embedding_timeout: float = 30.0
    rerank_timeout: float = 3.0
    search_deadline: float = 5.0
    max_tokens: int = 256
    temperature: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """One search; ``filter`` is the wire form, ``strict`` refuses a degraded result."""

    scope: Scope
    collection: str
    query: str
    limit: int = 10
    mode: Mode = Mode.HYBRID
    filter: Mapping[str, Any] | None = None
    rerank: bool = True
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRequest:
    """One question; ``history`` holds the earlier turns, oldest first. ``None``: the configured default."""

    search: SearchRequest
    history: tuple[Message, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HitsEvent:
    """The evidence, before the first word."""

    search: SearchResult


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaEvent:
    """The next piece of the text; never empty. All of them joined are the answer's text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CitationEvent:
    """A marker of the text so far and what it stands for; once a marker."""

    citation: Citation


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneEvent:
    """The whole answer; always the last event."""

    answer: Answer


AnswerEvent: TypeAlias = HitsEvent | DeltaEvent | CitationEvent | DoneEvent
