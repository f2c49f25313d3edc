"""Vectors and lexical weights in Milvus: a server or cluster, or Milvus Lite in a process of its own."""

from __future__ import annotations

from stores.milvus.store import MilvusStore, open_store

__all__ = ["MilvusStore", "open_store"]
