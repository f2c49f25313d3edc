"""The named crash points: before and after each step of ingest and of the API that leaves something behind.

A point is ``step:moment``. A step that is done several times for a document has a point for each time.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

_CATALOG = "rag.catalog.catalog:Catalog"
_QUEUE = "rag.catalog.queue:Queue"
_PUBLISH = "rag.catalog.publish"
_STORE = "stores.pgvector.store:PgVectorStore"
_BLOBS = "rag.blobs:FileBlobs"
_PARSER = "ingest.parsing.isolated:IsolatedParser"
_JOBS = "procrastinate.manager:JobManager"

WORKER_STEPS: Mapping[str, str] = {
    "jobs.fetch": f"{_JOBS}.fetch_job",
    "catalog.claim": f"{_CATALOG}.claim",
    "catalog.stage-parse": f"{_CATALOG}.stage",
    "catalog.kept_result": f"{_CATALOG}.kept_result",
    "blobs.get": f"{_BLOBS}.get",
    "parser.parse": f"{_PARSER}.parse",
    "catalog.keep_result": f"{_CATALOG}.keep_result",
    "chunker.chunk": "ingest.chunking.recursive:RecursiveChunker.chunk",
    "catalog.stage-embed": f"{_CATALOG}.stage#2",
    "embedder.embed": "rag.embedding.remote:RemoteEmbedder.embed",
    "store.upsert": f"{_STORE}.upsert",
    "embedder.embed-again": "rag.embedding.remote:RemoteEmbedder.embed#2",
    "store.upsert-again": f"{_STORE}.upsert#2",
    "store.count": f"{_STORE}.count",
    "blobs.put": f"{_BLOBS}.put",
    "catalog.stage-publish": f"{_CATALOG}.stage#4",
    "catalog.publish": f"{_CATALOG}.publish",
    "publish.generations": f"{_PUBLISH}:add_generations",
    "publish.statistics": f"{_PUBLISH}:move_statistics",
    "publish.garbage": f"{_PUBLISH}:discard_generation",
    "publish.blobs": f"{_PUBLISH}:discard_blobs",
    "publish.promotion": f"{_QUEUE}.defer_promotion",
    "publish.sweep": f"{_QUEUE}.defer_sweep",
    "catalog.fail": f"{_CATALOG}.fail",
    "jobs.finish": f"{_JOBS}.finish_job",
    "jobs.finish-again": f"{_JOBS}.finish_job#2",
    "catalog.claim_promotion": f"{_CATALOG}.claim_promotion",
    "parser.parse_fully": f"{_PARSER}.parse_fully",
    "catalog.garbage": f"{_CATALOG}.garbage",
    "store.delete": f"{_STORE}.delete",
    "catalog.swept": f"{_CATALOG}.swept",
    "store.drop_collection": f"{_STORE}.drop_collection",
    "catalog.sweep_results": f"{_CATALOG}.sweep_results",
    "catalog.sweep_blobs": f"{_CATALOG}.sweep_blobs",
    "catalog.kept_metadata": f"{_CATALOG}.kept_metadata",
    "store.update_metadata": f"{_STORE}.update_metadata",
    "queue.retry_stalled": f"{_QUEUE}.retry_stalled",
}
API_STEPS: Mapping[str, str] = {
    "store.create_collection": f"{_STORE}.create_collection",
    "catalog.create_collection": f"{_CATALOG}.create_collection",
    "blobs.put": f"{_BLOBS}.put",
    "catalog.create_document": f"{_CATALOG}.create_document",
    "queue.defer_ingest": f"{_QUEUE}.defer_ingest",
    "catalog.update_metadata": f"{_CATALOG}.update_metadata",
    "queue.defer_alignment": f"{_QUEUE}.defer_alignment",
    "catalog.retry_document": f"{_CATALOG}.retry_document",
    "catalog.delete_document": f"{_CATALOG}.delete_document",
    "catalog.delete_collection": f"{_CATALOG}.delete_collection",
    "queue.defer_sweep": f"{_QUEUE}.defer_sweep",
}
STEPS: Mapping[str, Mapping[str, str]] = {"worker": WORKER_STEPS, "api": API_STEPS}
MOMENTS = ("before", "after")


def points(process: str) -> list[str]:
    """Every point of a process, ``worker`` or ``api``, in the order of a document's way."""
    return [f"{step}:{moment}" for step in STEPS[process] for moment in MOMENTS]


def arm(process: str, point: str) -> None:
    """Have this process kill itself with SIGKILL when it comes to the point."""
    step, _, moment = point.partition(":")
    place, _, number = STEPS[process][step].partition("#")
    owner, attribute = _find(place)
    original = getattr(owner, attribute)
    setattr(owner, attribute, _deadly(original, moment=moment, at=int(number or 1)))


def _find(place: str) -> tuple[Any, str]:
    module, _, path = place.partition(":")
    owner: Any = importlib.import_module(module)
    *classes, attribute = path.split(".")
    for name in classes:
        owner = getattr(owner, name)
    return owner, attribute


def _deadly(original: Callable[..., Any], *, moment: str, at: int) -> Callable[..., Any]:
    calls = 0

    @functools.wraps(original)
    async def step(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        mine = calls == at
        if mine and moment == "before":
            _die()
        result = await original(*arguments, **named)
        if mine:
            _die()
        return result

    return step


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    while True:
        time.sleep(1)
