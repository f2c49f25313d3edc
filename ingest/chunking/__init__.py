"""Parsed documents to chunks that fit a model's window."""

from __future__ import annotations

from ingest.chunking.recursive import RecursiveChunker

__all__ = ["RecursiveChunker"]
