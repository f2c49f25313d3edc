"""What happens to one request on its way: times, failed stages, stages that do not apply."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from rag.core.answers import Skip
from rag.core.errors import AnchorageError, DeadlineExceededError, DegradedError, OverloadedError, UpstreamError
from rag.deadline import PATIENCE_SECONDS, Deadline, stage_within
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
        skip = Skip(stage=stage, reason=reason)
        if skip not in self.skipped:
            self.skipped.append(skip)


async def bounded(
    work: Awaitable[T],
    *,
    deadline: Deadline,
    late: type[UpstreamError],
    stage: str,
    at_most: float | None = None,
    share: float = 1.0,
) -> T:
    """Await ``work`` for its share of the deadline.

    When it takes longer, raises ``late`` if it had the time that it may take, else ``DeadlineExceededError``.
    """
    seconds = deadline.limit(at_most, share)
    enough = PATIENCE_SECONDS if at_most is None else min(at_most, PATIENCE_SECONDS)
    try:
        with stage_within(seconds):
            async with asyncio.timeout(seconds):
                return await work
    except TimeoutError as error:
        if seconds < enough:
            raise DeadlineExceededError(f"the deadline left {stage} too little time") from error
        raise late(f"{stage} did not answer in time") from error
