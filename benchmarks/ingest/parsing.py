"""How fast the parser's child process reads documents, beside what reads them bare in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median

import pypdfium2

from benchmarks.ingest.making import page, pdf, plain_text
from ingest.parsing import TierLimits, open_parser
from rag.core.media import HTML, PDF, TEXT
from rag.core.ports import DocumentParser

MEBIBYTE = 2**20
_MEMORY_BYTES = 2048 * MEBIBYTE
_OUTPUT_BYTES = 256 * MEBIBYTE
_PATIENCE = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Bytes of input a second, in MB (10⁶), through the child and its pipe; for PDF the time over pypdfium2's."""

    text: float
    html: float
    pdf_ratio: float
    pdf_seconds: float


async def measure_parsing(*, seed: int, megabytes: int, pages: int, rounds: int) -> Speeds:
    """Median of ``rounds``, each of which parses every document once."""
    text, html = plain_text(megabytes * MEBIBYTE, seed=seed), page(megabytes * MEBIBYTE, seed=seed)
    sheets = await asyncio.to_thread(pdf, pages, seed=seed)
    seconds: dict[str, list[float]] = {TEXT: [], HTML: [], PDF: [], "bare": []}
    limits = TierLimits(full=_PATIENCE, summary_start=_PATIENCE, summary=_PATIENCE)
    async with open_parser(
        limits=limits, memory_bytes=_MEMORY_BYTES, output_bytes=_OUTPUT_BYTES, documents=1
    ) as parser:
        for _ in range(rounds + 1):
            for media_type, content in ((TEXT, text), (HTML, html), (PDF, sheets)):
                seconds[media_type].append(await _timed(_parsing(parser, content, media_type)))
            seconds["bare"].append(await _timed(lambda: asyncio.to_thread(read_bare, sheets)))
    # The first round warms up.
    typical = {name: median(times[1:]) for name, times in seconds.items()}
    return Speeds(
        text=len(text) / 1e6 / typical[TEXT],
        html=len(html) / 1e6 / typical[HTML],
        pdf_ratio=typical[PDF] / typical["bare"],
        pdf_seconds=typical[PDF],
    )


def read_bare(content: bytes) -> int:
    """What anybody would write: the text of every page, by pypdfium2; gives the number of characters."""
    document = pypdfium2.PdfDocument(content)
    read = 0
    for number in range(len(document)):
        sheet = document[number]
        text = sheet.get_textpage()
        read += len(text.get_text_range())
        text.close()
        sheet.close()
    document.close()
    return read


def _parsing(parser: DocumentParser, content: bytes, media_type: str) -> Callable[[], Awaitable[object]]:
    return lambda: parser.parse(content, source="generated", media_type=media_type)


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began
