"""Workers that are really killed: by the document they process, or while they promote one."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from rag.catalog import Catalog
from rag.core.types import DocumentState, Quality, Scope

# Kills itself over the document and the task that it is told to; publishes every other one in full.
_WORKER = """
import asyncio, os, signal, sys
from uuid import UUID

from rag.catalog import open_catalog
from rag.core.catalog import PromotionPolicy
from tests.integration.catalog.conftest import _publication

async def main(url, poison, deadly):
    promotion = PromotionPolicy(pause=0.0, attempts=2)
    async with open_catalog(url, pool_size=4, timeout=20.0, max_attempts=3, promotion=promotion) as catalog:
        def handler(task, claim):
            async def run(tenant, document):
                attempt = await claim(tenant, UUID(document))
                if attempt is None:
                    return
                if (task, attempt.source) == (deadly, poison):
                    os.kill(os.getpid(), signal.SIGKILL)
                await catalog.publish([_publication(attempt)])
            return run

        async def nothing(**_):
            return

        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        handlers = {
            "ingest_document": handler("ingest", catalog.claim),
            "promote_document": handler("promote", catalog.claim_promotion),
            "sweep": nothing,
            "align_metadata": nothing,
        }
        await catalog.queue.run(handlers, concurrency=2, stop_event=stop, stalled_after=60.0, upkeep_every=0.2)

asyncio.run(main(*sys.argv[1:]))
"""


async def start_worker(url: str, *, poison: str = "", deadly: str = "") -> asyncio.subprocess.Process:
    """A worker process; what died before it counts as silent for long, so that nobody waits for that."""
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE anchorage.procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WORKER, url, poison, deadly, cwd=Path(__file__).parents[3]
    )


async def killed(worker: asyncio.subprocess.Process) -> bool:
    return await asyncio.wait_for(worker.wait(), 60) == -signal.SIGKILL


async def stop(worker: asyncio.subprocess.Process) -> None:
    worker.send_signal(signal.SIGTERM)
    await asyncio.wait_for(worker.wait(), 60)


async def test_a_document_that_kills_its_workers_fails_with_each_loss_in_its_history(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], url: str, until: Callable[..., Any]
) -> None:
    poison: UUID = (await upload("poison.pdf", "poison")).document.id
    for number in range(4):
        await upload(f"{number}.txt", str(number))
    deaths = [await killed(await start_worker(url, poison="poison.pdf", deadly="ingest")) for _ in range(3)]

    async def ended() -> object:
        page = await catalog.list_documents(scope, "papers")
        return all(view.state.terminal for view in page.items)

    last = await start_worker(url, poison="poison.pdf", deadly="ingest")
    await until(ended)
    await stop(last)

    view = await catalog.get_document(scope, "papers", poison)
    others = await catalog.list_documents(scope, "papers", state=DocumentState.PUBLISHED)
    assert deaths == [True, True, True]
    assert (view.state, view.error_code, others.total) == (DocumentState.FAILED, "too_many_attempts", 4)
    assert [(each["attempt"], each["outcome"]) for each in view.attempts] == [(1, "lost"), (2, "lost"), (3, "lost")]
    assert all("the worker ended" in each["message"] for each in view.attempts)
    assert (await catalog.collection(scope, "papers", terms=[1])).document_counts == {1: 4}


async def test_a_promotion_whose_worker_is_killed_is_taken_up_by_the_next_one(  # noqa: PLR0917  fixtures
    catalog: Catalog,
    scope: Scope,
    upload: Callable[..., Any],
    publish: Callable[..., Any],
    url: str,
    until: Callable[..., Any],
) -> None:
    document: UUID = (await upload("slow.pdf")).document.id
    served = await publish(document, quality=Quality.SUMMARY)
    death = await killed(await start_worker(url, poison="slow.pdf", deadly="promote"))
    between = await catalog.get_document(scope, "papers", document)

    async def promoted() -> object:
        return (await catalog.get_document(scope, "papers", document)).quality is Quality.FULL

    second = await start_worker(url)
    await until(promoted)
    await stop(second)

    view = await catalog.get_document(scope, "papers", document)
    assert death
    assert (between.state, between.generation) == (DocumentState.PUBLISHED, served)
    assert [each["outcome"] for each in view.attempts] == ["published", "lost", "published"]
    assert (await catalog.collection(scope, "papers", terms=[1, 2])).document_counts == {1: 1, 2: 2}
