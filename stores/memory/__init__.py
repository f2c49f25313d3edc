"""The exact in-memory store: the reference that other stores are tested against."""

from __future__ import annotations

from stores.memory.store import MemoryStore, open_store

__all__ = ["MemoryStore", "open_store"]
