"""The lexical side of retrieval: one analyzer and one weighting, the same for documents, queries and stores."""

from __future__ import annotations

from rag.lexical.analyzer import TermCounts, count_terms
from rag.lexical.scripts import script_language
from rag.lexical.weights import document_weights, query_weights

__all__ = ["TermCounts", "count_terms", "document_weights", "query_weights", "script_language"]
