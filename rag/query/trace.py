"""What happens to one request on its way: times, failed stages, stages that do not apply."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from rag.core.errors import AnchorageError, DegradedError, OverloadedError, UpstreamError
from rag.core.types import Skip
from rag.deadline import Deadline
from rag.telemetry import DEGRADED_ANSWERS

logger = logging.getLogger(__name__)

T = TypeVar("T")

STAGE_FAILURES = (UpstreamError, OverloadedError)
"""What a stage with a fallback may raise; anything else is a fault of the program or the request."""


@dataclass(slots=True, kw_only=True)
class Trace:
    """Collects what the result reports; ``strict`` turns the first failed stage into an error."""

    strict: bool
    timings: dict[str, float] = field(default_factory=dict)
    degraded: list[str] = field(default_factory=list)
    skipped: list[Skip] = field(default_factory=list)

    def degrade(self, stage: str, error: AnchorageError) -> None:
        """Note that a stage failed and its fallback runs. Raises ``DegradedError`` when strict."""
        logger.warning("stage failed", extra={"action": "degrade", "stage": stage, "code": error.code})
        if self.strict:
            raise DegradedError(f"{stage} failed and a strict result was asked for: {error.message}") from error
        DEGRADED_ANSWERS.labels(stage).inc()
        self.degraded.append(stage)

    def skip(self, stage: str, reason: str) -> None:
        """Note that a stage does not apply."""
        self.skipped.append(Skip(stage=stage, reason=reason))


async def bounded(
    work: Awaitable[T],
    *,
    deadline: Deadline,
    late: type[UpstreamError],
    stage: str,
    at_most: float | None = None,
    share: float = 1.0,
) -> T:
    """Await ``work`` for its share of the deadline. Raises ``late`` when it takes longer."""
    try:
        async with asyncio.timeout(deadline.limit(at_most, share)):
            return await work
    except TimeoutError as error:
        raise late(f"{stage} did not answer in time") from error
