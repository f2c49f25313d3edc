"""The query path: one search or one answer, its stages, budgets and fallbacks."""

from rag.query.pipeline import QueryPipeline
from rag.query.types import (
    AnswerEvent,
    AnswerRequest,
    CitationEvent,
    DeltaEvent,
    DoneEvent,
    HitsEvent,
    QueryOptions,
    SearchRequest,
)

__all__ = [
    "AnswerEvent",
    "AnswerRequest",
    "CitationEvent",
    "DeltaEvent",
    "DoneEvent",
    "HitsEvent",
    "QueryOptions",
    "QueryPipeline",
    "SearchRequest",
]
