"""Vectors and lexical postings in PostgreSQL with pgvector."""

from __future__ import annotations

from stores.pgvector.store import PgVectorStore, open_store

__all__ = ["PgVectorStore", "open_store"]
