"""The parser that always ends: each tier is one attempt in a child process, under its own limit.

One tier for now; a further one is a further entry, tried when the one before it gave nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

from ingest.parsing.children import ChildLimits, Children, Request, open_children
from ingest.parsing.failures import KILLED, MEMORY, TIMEOUT, DocumentParseError
from ingest.parsing.parsers import PARSERS
from ingest.parsing.wire import Reply
from rag.core.media import FORMATS
from rag.core.ports import DocumentParser
from rag.core.types import ParseAttempt, ParsedDocument, Quality
from rag.telemetry import STAGE_SECONDS

_EMPTY = "empty_output"

Outcome = Literal["ok", "timeout", "failed", "killed", "empty"]
_OUTCOMES: Mapping[str | None, Outcome] = {
    None: "ok", TIMEOUT: "timeout", KILLED: "killed", MEMORY: "killed", _EMPTY: "empty",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A way to parse, and how many seconds it may take."""

    number: int
    seconds: float


class IsolatedParser:
    """Implements ``DocumentParser`` over child processes."""

    def __init__(self, children: Children, *, tiers: Sequence[Tier]) -> None:
        self._children = children
        self._tiers = tiers

    async def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        """The document with its attempts. Raises ``DocumentParseError`` with all of them."""
        attempts: list[ParseAttempt] = []
        reply: Reply | None = None
        for tier in self._tiers:
            reply, attempt = await self._attempt(tier, content, source, media_type)
            attempts.append(attempt)
            if reply.document is not None:
                return replace(reply.document, attempts=tuple(attempts))
        raise DocumentParseError(
            reply.message if reply is not None else None,
            code=(reply.code if reply is not None else None) or KILLED,
            attempts=tuple(attempts),
        )

    async def _attempt(self, tier: Tier, content: bytes, source: str, media_type: str) -> tuple[Reply, ParseAttempt]:
        clock = asyncio.get_running_loop().time
        began = clock()
        request = Request(content=content, source=source, media_type=media_type, seconds=tier.seconds)
        reply = _checked(await self._children.parse(request), content)
        seconds = clock() - began
        STAGE_SECONDS.labels("parse").observe(seconds)
        return reply, ParseAttempt(
            parser=reply.parser or FORMATS.get(media_type, "none"),
            tier=tier.number,
            seconds=round(seconds, 4),
            outcome=_OUTCOMES.get(reply.code, "failed"),
            code=reply.code,
        )


def _checked(reply: Reply, content: bytes) -> Reply:
    """A text of nothing out of something is a failure, unless the parser knows that there is no text."""
    document = reply.document
    if document is None or document.text or document.quality is Quality.NO_TEXT or not content.strip():
        return reply
    return replace(reply, document=None, code=_EMPTY, message="the document holds no readable text")


@asynccontextmanager
async def open_parser(
    *,
    timeout: float,
    memory_bytes: int,
    output_bytes: int,
    children: int,
    parsers: Mapping[str, str] = PARSERS,
) -> AsyncIterator[DocumentParser]:
    """A parser over ``children`` processes; each document may take ``timeout`` seconds.

    Opening returns at once, the processes warm up meanwhile. ``parsers`` maps media types to ``module:class``.
    """
    limits = ChildLimits(memory_bytes=memory_bytes, output_bytes=output_bytes)
    async with open_children(count=children, limits=limits, parsers=parsers) as processes:
        yield IsolatedParser(processes, tiers=(Tier(number=1, seconds=timeout),))
