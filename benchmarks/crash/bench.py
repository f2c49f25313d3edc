"""Rounds of uploads, replacements and deletions with a kill in each, and an audit after each."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from benchmarks.countdown import Countdown
from benchmarks.crash.audit import Findings, audit
from benchmarks.crash.library import Library
from benchmarks.crash.points import points
from benchmarks.crash.reader import Reader
from benchmarks.processes import Processes, open_processes
from benchmarks.report import Bar, Report
from rag.maintenance import Parts
from rag.wiring import open_parts

CONFIGURATION: Mapping[str, str] = {
    "EMBEDDING__MODEL": "hash-64",
    "RERANK__ENABLED": "false",
    "GENERATION__MANAGED": "false",
    "INGEST__CONCURRENCY": "1",
    "INGEST__CHUNK_TOKENS": "64",
    "INGEST__CHUNK_MIN_TOKENS": "8",
    "INGEST__CHUNK_OVERLAP_TOKENS": "0",
    "INGEST__STALLED_AFTER": "1.5",
    "INGEST__PUBLISH_INTERVAL": "0.1",
    # Kills count as tries, and these documents are killed more often than any poison.
    "INGEST__MAX_ATTEMPTS": "10000",
    "INGEST__PROMOTION_ATTEMPTS": "10000",
    "INGEST__PROMOTION_PAUSE": "0.1",
    "INGEST__FULL_PARSE_SECONDS": "0.4",
    "INGEST__FAST_PARSE_START_SECONDS": "0.2",
}
RANDOM_KILLS, FEW_RANDOM_KILLS = 100, 2
FEW_POINTS = {"worker": ("store.upsert:after", "publish.statistics:after"), "api": ("catalog.create_document:after",)}
KILLS_BETWEEN_AUDITS = 5
REACHED_SECONDS = 30.0
_SHOWN = 10
_VICTIM = "benchmarks.crash.victim"
LONGEST_PAUSE = 1.5
TARGETS = ("worker", "worker", "api", "postgres")
_SECONDS = 30.0


@dataclass(slots=True)
class Tally:
    """One kind of kills: how many, the points that were never reached, and what the audits found."""

    kills: int = 0
    unreached: list[str] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that takes part."""

    processes: Processes
    library: Library
    reader: Reader
    parts: Parts

    async def settle(self) -> Findings:
        """Let healthy processes finish the work, and compare."""
        for process in ("api", "worker"):
            if not self.processes.runs(process):
                await self.processes.start(process)
        return await audit(self.parts, self.library.wanted)


async def measure(*, seed: int, quick: bool) -> Report:
    """Kill at every named point, then at random."""
    kills = FEW_RANDOM_KILLS if quick else RANDOM_KILLS
    chosen = {process: FEW_POINTS[process] if quick else points(process) for process in ("worker", "api")}
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory(prefix="anchorage-crash-") as folder:
        async with _open_scene(Path(folder)) as scene:
            await scene.settle()
            tallies["worker, at points"] = await _at_points(scene, "worker", chosen["worker"])
            tallies["API, at points"] = await _at_points(scene, "api", chosen["api"])
            tallies["at random"] = await _at_random(scene, kills, seed=seed)
            return _report(tallies, scene, seed=seed, parameters={"points": chosen, "random_kills": kills})


@asynccontextmanager
async def _open_scene(folder: Path) -> AsyncIterator[Scene]:
    async with open_processes(folder, CONFIGURATION) as processes:

        async def revive() -> None:
            if not processes.runs("api"):
                await processes.start("api")

        await processes.start("api")
        async with (
            httpx.AsyncClient(base_url=processes.url, timeout=_SECONDS, trust_env=False) as client,
            open_parts(processes.settings()) as parts,
        ):
            library, reader = Library(client, revive), Reader(client, parts)
            await library.open()
            reading = asyncio.create_task(reader.run(), name="reader")
            try:
                yield Scene(processes=processes, library=library, reader=reader, parts=parts)
            finally:
                reading.cancel()
                await asyncio.wait({reading})


async def _at_points(scene: Scene, process: str, chosen: Sequence[str]) -> Tally:
    tally, progress = Tally(), Countdown(f"{process} killed at points", len(chosen))
    for number, point in enumerate(chosen, 1):
        await scene.processes.stop(process)
        if process == "worker":
            await scene.library.round()
            await scene.processes.start(process, _VICTIM, process, point)
            reached = await scene.processes.ended(process, seconds=REACHED_SECONDS)
        else:
            silences = scene.library.silences
            await scene.processes.start(process, _VICTIM, process, point)
            await scene.library.round()
            reached = scene.library.silences > silences
        await _count(scene, tally, point, reached=reached)
        progress.show(number)
    return tally


async def _count(scene: Scene, tally: Tally, point: str, *, reached: bool) -> None:
    tally.kills += reached
    if not reached:
        tally.unreached.append(point)
    tally.findings.add(await scene.settle())


async def _at_random(scene: Scene, kills: int, *, seed: int) -> Tally:
    chance = random.Random(seed)
    tally, progress = Tally(), Countdown("killed at random", kills)
    while tally.kills < kills:
        uploading = asyncio.create_task(_upload(scene.library), name="uploads")
        for _ in range(min(KILLS_BETWEEN_AUDITS, kills - tally.kills)):
            await asyncio.sleep(chance.uniform(0.0, LONGEST_PAUSE))
            target = chance.choice(TARGETS)
            await scene.processes.kill(target)
            if target == "worker":
                await scene.processes.start(target)
            tally.kills += 1
            progress.show(tally.kills)
        scene.library.enough = True
        await uploading
        tally.findings.add(await scene.settle())
    return tally


async def _upload(library: Library) -> None:
    library.enough = False
    while not library.enough:
        await library.round()


def _report(tallies: dict[str, Tally], scene: Scene, *, seed: int, parameters: dict[str, object]) -> Report:
    every = Findings()
    for tally in tallies.values():
        every.add(tally.findings)
    reader, library = scene.reader, scene.library
    unreached = [point for tally in tallies.values() for point in tally.unreached]
    faults = {
        "documents lost": every.lost,
        "documents doubled": every.doubled,
        "documents half-published": every.half + reader.halves,
        "answers of two versions": reader.mixed,
        "other faults": every.other + library.server_errors,
        "points never reached": unreached,
    }
    return Report(
        name="crash",
        columns=("killed", "kills", "documents audited", "lost", "doubled", "half-published"),
        rows=[
            (name, tally.kills, each.documents, len(each.lost), len(each.doubled), len(each.half))
            for name, tally in tallies.items()
            for each in (tally.findings,)
        ],
        bars=[
            *(Bar(name=name, value=len(found), bound=0, relation="<=") for name, found in faults.items()),
            Bar(name="answers read meanwhile", value=reader.answers, bound=1, relation=">="),
            Bar(name="documents counted meanwhile", value=reader.documents, bound=1, relation=">="),
        ],
        seed=seed,
        parameters=parameters,
        notes=[f"{name}: {what}" for name, found in faults.items() for what in found[:_SHOWN]],
    )
