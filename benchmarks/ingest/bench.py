"""Speed of parsing, cost of the whole of ingest, and memory, against their bars."""

from __future__ import annotations

from benchmarks.ingest.memory import POOL, Memory, measure_long_pdf, measure_small_files
from benchmarks.ingest.parsing import Speeds, measure_parsing
from benchmarks.ingest.whole import Whole, measure_whole
from benchmarks.report import Bar, Report

LEAST_TEXT, LEAST_HTML, MOST_PDF = 20.0, 5.0, 2.0
MOST_WHOLE = {"recursive": 1.2, "semantic": 2.5}
MOST_GROWTH = 0.1
POOLS = 4
"""API and worker have one for the catalog and one for the store each, and a listener of the queue."""


async def measure(*, seed: int, quick: bool) -> Report:
    """All of it; ``quick`` takes less of everything."""
    megabytes, pages, rounds = (4, 100, 2) if quick else (16, 500, 5)
    documents, pairs = (12, 1) if quick else (60, 3)
    files, long_pages, times = (300, 100, 3) if quick else (3000, 500, 6)
    speeds = await measure_parsing(seed=seed, megabytes=megabytes, pages=pages, rounds=rounds)
    whole = {kind: await measure_whole(kind, seed=seed, documents=documents, pairs=pairs) for kind in MOST_WHOLE}
    small = await measure_small_files(seed=seed, files=files)
    long = await measure_long_pdf(seed=seed, pages=long_pages, times=times)
    memory = {f"{files} small files": small, f"a PDF of {long_pages} pages, {times} times": long}
    return Report(
        name="ingest",
        columns=("what", "figure", "unit", "beside"),
        rows=[*_speed_rows(speeds), *_whole_rows(whole), *_memory_rows(memory)],
        bars=[*_speed_bars(speeds), *_whole_bars(whole), *_memory_bars(memory)],
        seed=seed,
        parameters={"megabytes": megabytes, "pages": pages, "documents": documents, "files": files},
    )


def _speed_rows(speeds: Speeds) -> list[tuple[str, float, str, str]]:
    return [
        ("plain text through the child", round(speeds.text, 1), "MB/s", ""),
        ("HTML through the child", round(speeds.html, 1), "MB/s", ""),
        ("PDF through the child", round(speeds.pdf_seconds, 2), "s", f"{speeds.pdf_ratio:.2f} times bare pypdfium2"),
    ]


def _whole_rows(whole: dict[str, Whole]) -> list[tuple[str, float, str, str]]:
    return [
        (
            f"whole ingest, {kind}",
            round(each.ingest, 2),
            "s",
            f"{each.ratio:.2f} times the {each.bare:.2f} s to embed its {each.chunks} chunks",
        )
        for kind, each in whole.items()
    ]


def _memory_rows(memory: dict[str, Memory]) -> list[tuple[str, float, str, str]]:
    return [
        (
            f"worker's memory, {name}",
            round(each.last, 1),
            "MiB",
            f"{each.growth:+.1%} on {each.first:.0f}; parsers {each.parsers:.0f}; {each.connections} connections",
        )
        for name, each in memory.items()
    ]


def _speed_bars(speeds: Speeds) -> list[Bar]:
    return [
        Bar(name="MB/s of plain text", value=speeds.text, bound=LEAST_TEXT, relation=">="),
        Bar(name="MB/s of HTML", value=speeds.html, bound=LEAST_HTML, relation=">="),
        Bar(name="PDF over pypdfium2", value=speeds.pdf_ratio, bound=MOST_PDF, relation="<="),
    ]


def _whole_bars(whole: dict[str, Whole]) -> list[Bar]:
    return [
        Bar(name=f"whole ingest over embedding, {kind}", value=each.ratio, bound=MOST_WHOLE[kind], relation="<=")
        for kind, each in whole.items()
    ]


def _memory_bars(memory: dict[str, Memory]) -> list[Bar]:
    most = POOLS * POOL + 2
    return [
        *(
            Bar(name=f"growth of memory, {name}", value=each.growth, bound=MOST_GROWTH, relation="<=")
            for name, each in memory.items()
        ),
        Bar(name="connections", value=max(e.connections for e in memory.values()), bound=most, relation="<="),
    ]
