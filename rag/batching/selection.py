"""Which waiting items make the next batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.core.types import Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How large batches and the queue may become.

    ``items`` and ``tokens`` bound one batch, padding included (longest item × items). A bulk batch takes only
    ``bulk_share`` of both: it cannot be interrupted, so its length is what an interactive item may have to wait.
    ``queue`` bounds the waiting items of each priority on its own, so that neither crowds out the other.
    """

    items: int = 32
    tokens: int = 4096
    bulk_share: float = 0.25
    queue: int = 2048

    def of(self, priority: Priority) -> tuple[int, int]:
        """Items and padded tokens of one batch at this priority; at least one of each."""
        share = self.bulk_share if priority is Priority.BULK else 1.0
        return max(1, int(self.items * share)), max(1, int(self.tokens * share))


def choose_batch(costs: Sequence[int], *, items: int, tokens: int) -> list[int]:
    """Positions of the next batch among waiting ``costs`` (tokens, oldest first), ascending.

    The oldest always goes, even if it alone is over the budget, so that nothing waits for ever; those nearest
    to its length join it as long as ``longest × count`` stays within ``tokens``. ``costs`` is not empty.
    """
    chosen, longest = [0], costs[0]
    for position in sorted(range(1, len(costs)), key=lambda each: (abs(costs[each] - costs[0]), each)):
        if len(chosen) == items:
            break
        padded = max(longest, costs[position])
        if padded * (len(chosen) + 1) <= tokens:
            chosen.append(position)
            longest = padded
    return sorted(chosen)
