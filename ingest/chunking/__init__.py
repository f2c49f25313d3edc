"""Parsed documents to chunks that fit a model's window."""

from __future__ import annotations

from ingest.chunking.fixed import FixedChunker
from ingest.chunking.headers import HeadedChunker
from ingest.chunking.recursive import RecursiveChunker
from ingest.chunking.semantic import SemanticChunker

__all__ = ["FixedChunker", "HeadedChunker", "RecursiveChunker", "SemanticChunker"]
