"""One document on its way through the tiers: full parse, summary beside it, fragment in the end.

Where the full parse says that there is no text, OCR comes after it, where it is installed, with a limit of its own.

The clock starts when a child takes the document. A better tier that fails before its limit lets the next begin at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from ingest.parsing.children import Child, Children, Request
from ingest.parsing.failures import (
    EMPTY,
    FAILED,
    FAULTS,
    KILLED,
    KILLS,
    MEMORY,
    SUPERSEDED,
    TIMEOUT,
    DocumentParseError,
)
from ingest.parsing.ocr import ADVICE, NOT_INSTALLED, PROGRAM, SCANNED
from ingest.parsing.ways import Tier, Ways
from ingest.parsing.wire import Reply
from rag.core.media import FORMATS
from rag.core.types import ParseAttempt, ParsedDocument, Quality
from rag.telemetry import PARSE_SECONDS, PARSE_WORKER_KILLS, STAGE_SECONDS

Outcome = Literal["ok", "timeout", "failed", "killed", "empty", "unneeded"]
_OUTCOMES: Mapping[str | None, Outcome] = {
    None: "ok", TIMEOUT: "timeout", KILLED: "killed", MEMORY: "killed", SUPERSEDED: "unneeded", EMPTY: "empty",
}  # fmt: skip
_QUALITIES = {Tier.SUMMARY: Quality.SUMMARY, Tier.FRAGMENT: Quality.FRAGMENT}
_MALFORMED = "malformed"
_LEAST_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TierLimits:
    """Seconds. ``full``, ``summary_start`` and ``summary`` count from the start; the others are durations.

    ``ocr`` of 0: no OCR.
    """

    full: float = 5.0
    summary_start: float = 3.0
    summary: float = 15.0
    fragment: float = 3.0
    promotion: float = 300.0
    ocr: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What is parsed."""

    content: bytes = field(repr=False)
    source: str
    media_type: str


class Course:
    """Parses one document once, by :meth:`parse` or :meth:`parse_fully`."""

    def __init__(self, children: Children, ways: Ways, limits: TierLimits, upload: Upload) -> None:
        self._children = children
        self._ways = ways
        self._limits = limits
        self._upload = upload
        self._clock = asyncio.get_running_loop().time
        self._began = 0.0
        self._started = asyncio.Event()
        self._full_ended = asyncio.Event()
        self._summary_failed = asyncio.Event()
        self._attempts: list[tuple[float, ParseAttempt]] = []

    async def parse_fully(self) -> ParsedDocument:
        """The full document within the limit of a promotion. Raises ``DocumentParseError``."""
        reply = await self._full(self._limits.promotion)
        if reply.document is None:
            raise self._error(reply)
        document = await self._see(reply.document, seconds=self._limits.promotion)
        if document.quality.degraded:
            raise DocumentParseError("some pages cannot be read", code=FAILED, attempts=self._ordered())
        return self._done(document)

    async def parse(self) -> ParsedDocument:
        """The best that is ready at its limit. Raises ``DocumentParseError`` for a verdict, or if nothing is."""
        summary = asyncio.create_task(self._summary())
        fragment = asyncio.create_task(self._fragment())
        try:
            full = await self._full(self._limits.full)
            self._full_ended.set()
            document = full.document
            if document is None and full.code in FAULTS:
                document = await summary or await fragment
        finally:
            summary.cancel()
            fragment.cancel()
            await asyncio.gather(summary, fragment, return_exceptions=True)
        if document is None:
            raise self._error(full)
        return self._done(await self._see(replace(document, fault=full.code), seconds=self._limits.ocr))

    async def _full(self, limit: float) -> Reply:
        """The first document of the chain; else the verdict on it, or what went wrong last."""
        verdict: Reply | None = None
        number = 0
        while True:
            reply = await self._attempt(Tier.FULL, number, until=limit)
            number += 1
            if reply.document is not None or (reply.code not in FAULTS and reply.code != _MALFORMED):
                return reply
            if reply.code == _MALFORMED:
                verdict = verdict or reply
            over = self._elapsed() > limit - _LEAST_SECONDS
            if over or number >= self._ways.count(Tier.FULL, self._upload.media_type):
                return verdict or reply

    async def _summary(self) -> ParsedDocument | None:
        await self._until(self._limits.summary_start, self._full_ended)
        document = await self._lower(Tier.SUMMARY, until=self._limits.summary)
        if document is None:
            self._summary_failed.set()
        return document

    async def _fragment(self) -> ParsedDocument | None:
        await self._full_ended.wait()
        await self._until(self._limits.summary - self._limits.fragment, self._summary_failed)
        return await self._lower(Tier.FRAGMENT, until=self._elapsed() + self._limits.fragment)

    async def _see(self, document: ParsedDocument, *, seconds: float) -> ParsedDocument:
        """What OCR reads in a document that holds no text; the document itself if that is nothing."""
        media_type = self._upload.media_type
        if document.quality is not Quality.NO_TEXT or media_type not in SCANNED or not self._limits.ocr:
            return document
        if not self._ways.count(Tier.OCR, media_type):
            return replace(document, fault=NOT_INSTALLED, structure={**document.structure, "ocr": ADVICE})
        reply = await self._attempt(Tier.OCR, 0, until=self._elapsed() + seconds)
        seen = reply.document
        if seen is None or not seen.text:
            return replace(document, fault=reply.code)
        return replace(seen, fault=FAILED if seen.quality.degraded else None)

    async def _until(self, seconds: float, event: asyncio.Event) -> None:
        """Wait for the event, or until so many seconds have passed since the start."""
        await self._started.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._began + seconds):
                await event.wait()

    async def _lower(self, tier: Tier, *, until: float) -> ParsedDocument | None:
        for number in range(self._ways.count(tier, self._upload.media_type)):
            document = (await self._attempt(tier, number, until=until)).document
            if document is not None and document.text:
                return replace(document, quality=_QUALITIES[tier])
        return None

    def _elapsed(self) -> float:
        return self._clock() - self._began

    async def _attempt(self, tier: Tier, number: int, *, until: float) -> Reply:
        async with self._children.lend() as child:
            if not self._started.is_set():
                self._began = self._clock()
                self._started.set()
            began = self._clock()
            reply = Reply(parser="", peak_bytes=0, code=SUPERSEDED)
            try:
                reply = await self._ask(child, tier, number, seconds=max(until - self._elapsed(), _LEAST_SECONDS))
            finally:
                self._note(tier, began, reply)
        return reply

    async def _ask(self, child: Child, tier: Tier, number: int, *, seconds: float) -> Reply:
        upload = self._upload
        request = Request(
            content=upload.content,
            source=upload.source,
            media_type=upload.media_type,
            seconds=seconds,
            tier=tier,
            number=number,
        )
        return _checked(await child.parse(request), upload.content)

    def _note(self, tier: Tier, began: float, reply: Reply) -> None:
        seconds = self._clock() - began
        STAGE_SECONDS.labels("parse").observe(seconds)
        PARSE_SECONDS.labels(FORMATS.get(self._upload.media_type, "other"), tier.name.lower()).observe(seconds)
        if reply.code in KILLS:
            PARSE_WORKER_KILLS.labels(reply.code).inc()
        attempt = ParseAttempt(
            parser=reply.parser or (PROGRAM if tier is Tier.OCR else FORMATS.get(self._upload.media_type, "none")),
            tier=int(tier),
            seconds=round(seconds, 4),
            outcome=_OUTCOMES.get(reply.code, "failed"),
            code=reply.code,
        )
        self._attempts.append((began, attempt))

    def _ordered(self) -> tuple[ParseAttempt, ...]:
        return tuple(attempt for _, attempt in sorted(self._attempts, key=lambda entry: entry[0]))

    def _done(self, document: ParsedDocument) -> ParsedDocument:
        return replace(document, attempts=self._ordered())

    def _error(self, reply: Reply) -> DocumentParseError:
        return DocumentParseError(reply.message, code=reply.code or KILLED, attempts=self._ordered())


def _checked(reply: Reply, content: bytes) -> Reply:
    """A text of nothing out of something is a failure, unless the parser knows that there is no text."""
    document = reply.document
    if document is None or document.text or document.quality is Quality.NO_TEXT or not content.strip():
        return reply
    return replace(reply, document=None, code=EMPTY, message="the document holds no readable text")
