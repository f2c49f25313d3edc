"""Qdrant: a server, the client's local mode, or the embedded engine in a process of its own."""

from __future__ import annotations

from importlib.util import find_spec

from stores.qdrant.store import QdrantStore, open_store

# Only found, not imported: the embedded engine and its host process do without, and it takes a second.
if find_spec("qdrant_client") is None:
    raise ModuleNotFoundError("No module named 'qdrant_client'", name="qdrant_client")

__all__ = ["QdrantStore", "open_store"]
