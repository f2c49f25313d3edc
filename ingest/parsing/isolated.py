"""The parser that always ends: whatever a document does, it does in child processes, tier by tier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ingest.parsing.children import TURN_SECONDS, ChildLimits, Children, open_children
from ingest.parsing.fast import FRAGMENTS, SUMMARIES
from ingest.parsing.ocr import find_tesseract
from ingest.parsing.parsers import PARSERS
from ingest.parsing.tiers import Course, TierLimits, Upload
from ingest.parsing.ways import Table, Tier, Ways
from rag.core.errors import CapacityError
from rag.core.ports import DocumentParser
from rag.core.types import ParsedDocument


class IsolatedParser:
    """Implements ``DocumentParser`` over child processes; ``documents`` are parsed at a time, the others wait."""

    def __init__(self, children: Children, *, ways: Ways, limits: TierLimits, documents: int) -> None:
        self._children = children
        self._ways = ways
        self._limits = limits
        self._turns = asyncio.Semaphore(documents)

    async def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        """The best within the limits, with its attempts. Raises ``DocumentParseError`` with all of them."""
        upload = Upload(content=content, source=source, media_type=media_type)
        async with self._turn():
            return await Course(self._children, self._ways, self._limits, upload).parse()

    async def parse_fully(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        """The full document within the limit of a promotion. Raises ``DocumentParseError``."""
        upload = Upload(content=content, source=source, media_type=media_type)
        async with self._turn():
            return await Course(self._children, self._ways, self._limits, upload).parse_fully()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._turns.acquire()
        except TimeoutError as error:
            raise CapacityError("no parser process became free", retry_after=10.0) from error
        try:
            yield
        finally:
            self._turns.release()


@asynccontextmanager
async def open_parser(
    *,
    limits: TierLimits,
    memory_bytes: int,
    output_bytes: int,
    documents: int,
    parsers: Table = PARSERS,
    summaries: Table = SUMMARIES,
    fragments: Table = FRAGMENTS,
    ocr_languages: str = "",
) -> AsyncIterator[DocumentParser]:
    """A parser of ``documents`` at a time, each of which has two processes where it needs them.

    Opening returns at once, the processes warm up meanwhile. The tables map media types to ``module:class``, or to
    several that are tried in order. A process and all below it may use ``memory_bytes``. Scans are read by
    tesseract where it is found and the limits allow it; ``ocr_languages`` such as ``chi_sim+eng`` must be installed.
    """
    tesseract = await find_tesseract(ocr_languages) if limits.ocr else None
    ocr = tesseract.ways() if tesseract else {}
    ways = Ways({Tier.FULL: parsers, Tier.SUMMARY: summaries, Tier.FRAGMENT: fragments, Tier.OCR: ocr})
    allowed = ChildLimits(memory_bytes=memory_bytes, output_bytes=output_bytes)
    async with open_children(
        count=min(documents + 1, 2 * documents), most=2 * documents, limits=allowed, ways=ways
    ) as children:
        yield IsolatedParser(children, ways=ways, limits=limits, documents=documents)
