"""The worker's resident memory while it takes thousands of small files, and a long PDF again and again."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx
import psutil
import psycopg

from benchmarks.countdown import Countdown
from benchmarks.ingest.making import pdf, plain_text
from benchmarks.processes import Processes, open_processes

POOL = 10
COLLECTION = "memory"
SMALL_BYTES = 1500
_UPLOADS_AT_ONCE = 8
_PAUSE = 0.2
_SECONDS = 60.0
_PATIENCE = 1200.0
_MEBIBYTE = 2**20
_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Mebibytes of the worker: at first and in the end; the most of its parser processes together; connections."""

    first: float
    last: float
    parsers: float
    connections: int

    @property
    def growth(self) -> float:
        """The end over the first, less one."""
        return self.last / self.first - 1


@dataclass(slots=True)
class Sample:
    """One look: documents done, mebibytes of worker and parsers, connections of all processes."""

    done: int
    worker: float
    parsers: float
    connections: int


async def measure_small_files(*, seed: int, files: int) -> Memory:
    """The second quarter of the files against the last one."""
    async with _service() as (processes, client):
        progress = Countdown("small files", files)
        watching = asyncio.create_task(_watch(processes, client, files, progress.show))
        gate = asyncio.Semaphore(_UPLOADS_AT_ONCE)

        async def upload(number: int) -> None:
            async with gate:
                await _upload(client, f"{number}.txt", plain_text(SMALL_BYTES, seed=seed + number))

        await asyncio.gather(*(upload(number) for number in range(files)))
        samples = await watching
    return _memory(
        [sample for sample in samples if files / 4 <= sample.done < files / 2],
        [sample for sample in samples if sample.done >= 3 * files / 4],
        samples,
    )


async def measure_long_pdf(*, seed: int, pages: int, times: int) -> Memory:
    """The second time against the last one; each time it is another document."""
    async with _service() as (processes, client):
        progress, rests, samples = Countdown(f"PDF of {pages} pages", times), list[Sample](), list[Sample]()
        for number in range(times):
            content = await asyncio.to_thread(pdf, pages, seed=seed + number)
            await _upload(client, f"{number}.pdf", content)
            samples += await _watch(processes, client, number + 1, lambda _: None)
            rests.append(samples[-1])
            progress.show(number + 1)
    return _memory(rests[1:2], rests[-1:], samples)


def _memory(first: Sequence[Sample], last: Sequence[Sample], samples: Sequence[Sample]) -> Memory:
    return Memory(
        first=median(sample.worker for sample in first),
        last=median(sample.worker for sample in last),
        parsers=max(sample.parsers for sample in samples),
        connections=max(sample.connections for sample in samples),
    )


@asynccontextmanager
async def _service() -> AsyncIterator[tuple[Processes, httpx.AsyncClient]]:
    """A service whose embedder costs nothing, with an empty collection."""
    configuration = {
        "EMBEDDING__MODEL": "hash-384",
        "RERANK__ENABLED": "false",
        "GENERATION__MANAGED": "false",
        "CATALOG__POOL_SIZE": str(POOL),
    }
    with tempfile.TemporaryDirectory(prefix="anchorage-ingest-") as folder:
        async with open_processes(Path(folder), configuration) as processes:
            await processes.start("api")
            await processes.start("worker")
            async with httpx.AsyncClient(base_url=processes.url, timeout=_SECONDS, trust_env=False) as client:
                (await client.post("/v1/collections", json={"name": COLLECTION})).raise_for_status()
                yield processes, client


async def _upload(client: httpx.AsyncClient, name: str, content: bytes) -> None:
    response = await client.post(f"/v1/collections/{COLLECTION}/documents", files={"file": (name, content)})
    response.raise_for_status()


async def _watch(
    processes: Processes, client: httpx.AsyncClient, documents: int, show: Callable[[int], None]
) -> list[Sample]:
    """Look again and again until so many documents are published."""
    worker, samples = psutil.Process(processes.pid("worker")), list[Sample]()
    async with (
        asyncio.timeout(_PATIENCE),
        await psycopg.AsyncConnection.connect(processes.database_url, autocommit=True) as connection,
    ):
        while not samples or samples[-1].done < documents:
            await asyncio.sleep(_PAUSE)
            page = await client.get(
                f"/v1/collections/{COLLECTION}/documents", params={"state": "published", "limit": 1}
            )
            row = await (await connection.execute(_CONNECTIONS)).fetchone()
            samples.append(_sample(worker, int(page.json()["total"]), row[0] if row else 0))
            if samples[-1].done:
                show(samples[-1].done)
    return samples


def _sample(worker: psutil.Process, done: int, connections: int) -> Sample:
    parsers = 0
    for child in worker.children(recursive=True):
        try:
            parsers += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    resident = worker.memory_info().rss
    return Sample(done=done, worker=resident / _MEBIBYTE, parsers=parsers / _MEBIBYTE, connections=connections)
