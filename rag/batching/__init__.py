"""Turns single calls of a model into batches, on one thread, interactive work first."""

from __future__ import annotations

from rag.batching.batcher import Batcher, open_batcher
from rag.batching.lane import BULK_AFTER, Lane, open_lane
from rag.batching.lazy import Lazy, open_lazy
from rag.batching.selection import BatchLimits, choose_batch

__all__ = [
    "BULK_AFTER", "BatchLimits", "Batcher", "Lane", "Lazy", "choose_batch", "open_batcher", "open_lane", "open_lazy",
]  # fmt: skip
