"""``anchorage bench``: measure, print a table, record the origin, exit 1 when a bar does not hold."""

from __future__ import annotations

import asyncio
import importlib
import signal
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import click
import uvloop

Result = TypeVar("Result")

BENCHMARKS = {
    "quality": "nDCG@10 and recall@100 of dense, lexical, hybrid and reranked retrieval on five sets",
    "overhead": "what /search adds over the same SQL query, and its SQL round trips",
    "recall": "recall@10 of each store at its defaults, plain and under filters of 50 to 0.1 %",
    "adapters": "throughput and latency of each store against its own client, used by hand",
    "chunking": "recursive, semantic and fixed chunks of the same mean size, with and without headers",
    "breaker": "whether one probe goes through, and a million random steps against a plain model",
    "crash": "whether a kill at any moment loses, doubles or half-publishes a document",
    "ingest": "speed of parsing and of the whole of ingest, and whether memory stays flat",
    "documents": "every shared document of the six formats against what is known of it",
    "hangs": "how soon parsers that hang are gone after their limit, and what is left of them",
    "lexical": "whether the stores agree on lexical search, and what it costs at ten times the rows",
}
BY_STORE = ("recall", "adapters", "lexical")
"""Those that take ``--store``."""


@click.command(
    short_help="Measure this installation.",
    help="Measure NAME (or `all`) and print a table; exits 1 when a stated bound does not hold.\n\n\b\n"
    + "\n".join(f"{name:10} {text}" for name, text in BENCHMARKS.items())
    + "\n\n\b\nExample:\n  anchorage bench overhead --json overhead.json",
)
@click.argument("name", type=click.Choice([*BENCHMARKS, "all"]))
@click.option("--quick", is_flag=True, help="A short form: fewer queries and rows, the same bars.")
@click.option("--store", "stores", multiple=True, metavar="NAME", help="Only this engine; may be repeated.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Also write the report to FILE.")
@click.option("--seed", default=7, show_default=True, help="Seed of every random choice.")
def bench(name: str, file: Path | None, seed: int, stores: tuple[str, ...], *, quick: bool) -> None:
    """Run one benchmark, or all of them."""
    names = list(BENCHMARKS) if name == "all" else [name]
    if stores and not set(names) & set(BY_STORE):
        raise click.UsageError(f"--store goes with {', '.join(BY_STORE)}")
    held = [_run(each, _file(file, each, several=len(names) > 1), seed, stores, quick=quick) for each in names]
    if not all(held):
        raise SystemExit(1)


def _run(name: str, file: Path | None, seed: int, stores: tuple[str, ...], *, quick: bool) -> bool:
    from benchmarks.report import write_json

    measure = importlib.import_module(f"benchmarks.{name}").measure
    chosen = {"stores": stores} if name in BY_STORE else {}
    try:
        # The service's own loop, so that what is measured is what it does.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            report = runner.run(_until_terminated(measure(seed=seed, quick=quick, **chosen)))
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None
    click.echo(report.render())
    if file is not None:
        write_json(report, file)
    return bool(report.holds)


async def _until_terminated(measuring: Awaitable[Result]) -> Result:
    """SIGTERM ends a measurement as Ctrl-C does: what it started is stopped, what it wrote is removed."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await measuring


def _file(file: Path | None, name: str, *, several: bool) -> Path | None:
    return file.with_name(f"{file.stem}-{name}{file.suffix}") if file is not None and several else file
