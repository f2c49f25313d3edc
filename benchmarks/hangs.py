"""Parsers that hang: how long after their limit they are gone, and what is left of them.

Every process below this one is noted while a parser hangs. The delay runs from the limit to the moment when parsing
has returned, which it does once the process and its folder are gone; one that is stopped before its limit, for its
memory or its files, has none.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.metrics import percentile
from benchmarks.report import Bar, Report
from ingest.parsing import DocumentParseError, TierLimits, open_parser
from ingest.parsing.folders import FOLDER_PREFIX
from rag.core.ports import DocumentParser

KINDS = ("Sleeper", "Spinner", "Deaf", "Allocator", "Forker", "Runaway", "Flooder", "Filler")
LIMIT = 2.0
MAX_DELAY = 0.5
MEMORY_BYTES = 512 * 2**20
_PATIENCE = 1.0
_LOOK = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """One parser's end: seconds after its limit, code, and processes and folders that were left."""

    delay: float
    code: str
    processes: int
    folders: int


async def measure(*, seed: int, quick: bool) -> Report:
    """Let each parser hang, once or ten times, and look for what is left."""
    rounds = 1 if quick else 10
    hangs = {kind: [await hang(kind) for _ in range(rounds)] for kind in KINDS}
    every = [each for several in hangs.values() for each in several]
    rows = [
        (
            kind,
            several[0].code,
            round(percentile([each.delay for each in several], 50), 3),
            round(max(each.delay for each in several), 3),
            sum(each.processes for each in several),
            sum(each.folders for each in several),
        )
        for kind, several in hangs.items()
    ]
    return Report(
        name="hangs",
        columns=("parser", "code", "median s after limit", "longest s", "processes left", "folders left"),
        rows=rows,
        bars=(
            Bar(name="seconds after the limit", value=max(e.delay for e in every), bound=MAX_DELAY, relation="<="),
            Bar(name="processes left", value=sum(e.processes for e in every), bound=0, relation="<="),
            Bar(name="folders left", value=sum(e.folders for e in every), bound=0, relation="<="),
        ),
        seed=seed,
        parameters={"rounds": rounds, "limit_seconds": LIMIT, "memory_bytes": MEMORY_BYTES},
    )


async def hang(kind: str) -> Hang:
    """Run one hanging parser to its end."""
    table = {kind: f"benchmarks.hanging:{kind}", "Prompt": "benchmarks.hanging:Prompt"}
    seen: set[psutil.Process] = set()
    async with open_parser(
        limits=TierLimits(full=LIMIT), memory_bytes=MEMORY_BYTES, output_bytes=2**20, documents=1, parsers=table
    ) as parser:
        # The clock starts when a process takes the document, not while it warms up.
        await parser.parse(b"x", source=kind, media_type="Prompt")
        noting = asyncio.create_task(_note(seen))
        began = time.monotonic()
        code = await _code(parser, kind)
        delay = time.monotonic() - began - LIMIT
        noting.cancel()
        await asyncio.gather(noting, return_exceptions=True)
    return Hang(delay=max(0.0, delay), code=code, processes=await _left(seen), folders=_folders())


async def _code(parser: DocumentParser, kind: str) -> str:
    """How it ended; parsing returns when the process and its folder are gone."""
    try:
        await parser.parse(b"x", source=kind, media_type=kind)
    except DocumentParseError as error:
        return error.reason
    raise RuntimeError("a parser that hangs gave a document")


async def _note(seen: set[psutil.Process]) -> None:
    """Remember every process below this one, again and again until cancelled."""
    while True:
        seen |= set(await asyncio.to_thread(psutil.Process().children, recursive=True))
        await asyncio.sleep(_LOOK)


async def _left(seen: set[psutil.Process]) -> int:
    """How many still run; one that ended and waits for the system's first process to notice does not."""
    _, present = await asyncio.to_thread(psutil.wait_procs, seen, timeout=_PATIENCE)
    return sum(map(_runs, present))


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _folders() -> int:
    return len(list(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}{os.getpid()}-*")))
