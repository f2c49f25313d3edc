"""The whole of ingest, from the first claimed document to the last published one, beside a bare batched embedding.

Bare: the same model at the same precision, given the chunks of these documents in one call, in batches of the
service's size. Pairs take turns, so that both meet the same machine.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.ingest.making import plain_text
from benchmarks.processes import Processes, open_processes
from rag.core.types import Scope
from rag.models import ModelKind, resolve
from rag.models.loading import cuda_capability, load_embedder, pick_device
from rag.models.precision import choose_precision, cpu_features
from rag.settings import load_settings
from rag.wiring import open_parts

DOCUMENT_BYTES = 12_000
_PAUSE = 0.1
_SECONDS = 60.0
_PATIENCE = 1800.0
_SCOPE = Scope(groups=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Medians: seconds of ingest, of the bare embedding, and of their ratio over pairs; chunks a pair."""

    ingest: float
    bare: float
    ratio: float
    chunks: int


async def measure_whole(chunker: str, *, seed: int, documents: int, pairs: int) -> Whole:
    """Ingest fresh documents and embed their chunks bare, again and again."""
    settings = load_settings()
    configuration = {
        "MODELS_DIR": str(settings.models_folder.absolute()),
        "RERANK__ENABLED": "false",
        "GENERATION__MANAGED": "false",
        "INGEST__CHUNKER": chunker,
    }
    with tempfile.TemporaryDirectory(prefix="anchorage-ingest-") as folder:
        async with open_processes(Path(folder), configuration) as processes:
            await processes.start("api")
            model = await asyncio.to_thread(_load)
            rounds = [
                await _pair(processes, model, f"round-{number}", documents, seed=seed + number)
                for number in range(pairs + 1)
            ]
    # The first pair warms up.
    measured = rounds[1:]
    return Whole(
        ingest=median(ingest for ingest, _, _ in measured),
        bare=median(bare for _, bare, _ in measured),
        ratio=median(ingest / bare for ingest, bare, _ in measured),
        chunks=round(median(chunks for _, _, chunks in measured)),
    )


async def _pair(
    processes: Processes, model: Any, collection: str, documents: int, *, seed: int
) -> tuple[float, float, int]:
    async with httpx.AsyncClient(base_url=processes.url, timeout=_SECONDS, trust_env=False) as client:
        (await client.post("/v1/collections", json={"name": collection})).raise_for_status()
        route = f"/v1/collections/{collection}/documents"
        for number in range(documents):
            content = plain_text(DOCUMENT_BYTES, seed=seed * documents + number)
            (await client.post(route, files={"file": (f"{number}.txt", content)})).raise_for_status()
        await processes.start("worker")
        seconds = await _ingested(client, route, documents)
        await processes.stop("worker")
    texts = await _chunks(processes, collection)
    began = time.perf_counter()
    await asyncio.to_thread(
        model.encode_document, texts, batch_size=load_settings().embedding.max_batch, show_progress_bar=False
    )
    return seconds, time.perf_counter() - began, len(texts)


async def _ingested(client: httpx.AsyncClient, route: str, documents: int) -> float:
    """Seconds from the first document that no longer waits to the last one that is published."""
    began: float | None = None
    async with asyncio.timeout(_PATIENCE):
        while True:
            if began is None and await _count(client, route, "queued") < documents:
                began = time.perf_counter()
            if began is not None and await _count(client, route, "published") == documents:
                return time.perf_counter() - began
            await asyncio.sleep(_PAUSE)


async def _count(client: httpx.AsyncClient, route: str, state: str) -> int:
    response = await client.get(route, params={"state": state, "limit": 1})
    response.raise_for_status()
    return int(response.json()["total"])


async def _chunks(processes: Processes, collection: str) -> list[str]:
    async with open_parts(processes.settings()) as parts:
        (home,) = await parts.catalog.inspected_collections(collection)
        return [record.text async for batch in parts.store.scroll(home.physical, _SCOPE) for record in batch]


def _load() -> Any:
    """The service's embedding model, as it is."""
    settings = load_settings()
    device = pick_device(settings.embedding.device)
    capability = cuda_capability(device)
    precision = choose_precision(ModelKind.EMBEDDER, features=cpu_features(), cuda_capability=capability)
    folder = resolve(settings.embedding.model, models_dir=settings.models_folder, kind=ModelKind.EMBEDDER)
    return load_embedder(folder, device=device, precision=precision, threads=settings.embedding.threads or None)
