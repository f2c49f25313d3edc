"""The supervisor: what it starts, in which order, and in which order it ends.

It owns the data folder's lock, the embedded Postgres, the process of an embedded vector store and the children: the
API, the ingest worker and, where it can be had, vLLM. Its guardian ends them when it is killed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import httpx

from rag.catalog.embedded import open_embedded_postgres
from rag.core.errors import AnchorageError, ConfigurationError
from rag.settings import Settings
from rag.supervision.child import Child, Report
from rag.supervision.guard import Guard, open_guard
from rag.supervision.lock import FolderLock, Owner
from rag.supervision.logs import rotate
from rag.supervision.models import missing_models, require_models, retrieval_models, wanted_models
from rag.supervision.plans import (
    API,
    MODELS,
    VLLM,
    WORKER,
    Places,
    Plans,
    choose_places,
    common_environment,
    describe_store,
    require_store,
)
from rag.supervision.preparation import prepare_in_child
from rag.supervision.vllm import Accelerator, find_accelerator
from stores.registry import open_store

CATALOG, STORE = "catalog", "store"

_PROBE_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Asks the supervisor to end: ``asked`` for a drain, ``hurry`` for an end without one."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    refusals: list[ConfigurationError] = field(default_factory=list)

    def ask(self) -> None:
        """The first call drains, the second one hurries."""
        (self.hurry if self.asked.is_set() else self.asked).set()

    def refuse(self, reason: ConfigurationError) -> None:
        """Drain because a child cannot use the configuration."""
        self.refusals.append(reason)
        self.asked.set()


async def supervise(settings: Settings, *, lock: FolderLock, report: Report, stop: Stop) -> None:
    """Run everything on the data folder until ``stop`` is asked for; returns when nothing is left.

    ``lock`` is the held lock of the data folder. Raises ``ConfigurationError`` before anything is started, or
    after everything has ended when a child could not use the configuration.
    """
    await asyncio.to_thread(require_store, settings)
    await asyncio.to_thread(require_models, settings)
    places = choose_places(settings)
    owner = Owner(pid=os.getpid(), url=places.url)
    lock.record(owner)
    for name in (API, WORKER, *([VLLM] if places.vllm_port else [])):
        rotate(places.log(name))
    async with AsyncExitStack() as stack:
        guard = await stack.enter_async_context(open_guard(lock=lock.descriptor))
        catalog_url = await stack.enter_async_context(_catalog(settings, places, guard=guard, report=report))
        await stack.enter_async_context(_store(settings, catalog_url=catalog_url, report=report))
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=_PROBE_TIMEOUT, trust_env=False))
        accelerator = await asyncio.to_thread(find_accelerator)
        await _prepare_models(settings, places, accelerator=accelerator, report=report, stop=stop)
        plans = Plans(
            settings,
            places,
            catalog_url=catalog_url,
            accelerator=accelerator,
            http=http,
            report=report,
            refused=stop.refuse,
            no_generation=lambda reason: lock.record(replace(owner, no_generation=reason)),
        )
        await _run(plans, guard=guard, report=report, stop=stop)
    report("", "everything has ended")
    if stop.refusals:
        raise stop.refusals[0]


async def _run(plans: Plans, *, guard: Guard, report: Report, stop: Stop) -> None:
    api = Child(plans.api(), guard=guard, report=report)
    worker = Child(plans.worker(api), guard=guard, report=report)
    children = [api, worker]
    if plans.places.vllm_port:
        children.append(Child(plans.vllm(), guard=guard, report=report))
    else:
        report(VLLM, plans.why_no_vllm())
    async with asyncio.TaskGroup() as tasks:
        for child in children:
            tasks.create_task(child.run(), name=child.plan.name)
        welcome = tasks.create_task(_welcome(api, plans, report=report))
        await stop.asked.wait()
        welcome.cancel()
        report("", "stopping: requests and jobs in progress are finished first; Ctrl-C again to hurry")
        for child in children:
            await child.stop(hurry=stop.hurry)
            report(child.plan.name, "stopped")


async def _welcome(api: Child, plans: Plans, *, report: Report) -> None:
    await api.ready.wait()
    places = plans.places
    report("", f"Anchorage is up. API {places.url}, data in {places.data_dir}")
    report("", f"stop it with Ctrl-C, `anchorage --data-dir {places.data_dir} up --stop` or `kill {os.getpid()}`")


@asynccontextmanager
async def _catalog(settings: Settings, places: Places, *, guard: Guard, report: Report) -> AsyncIterator[str]:
    """Run the embedded Postgres, or use the configured one; yield its URL."""
    if settings.catalog.url is not None:
        report(CATALOG, "uses the configured Postgres")
        yield settings.catalog.url.get_secret_value()
        return
    begun = asyncio.get_running_loop().time()
    postmaster = places.data_dir / "postgres" / "postmaster.pid"
    guard.watch_postgres(postmaster)
    try:
        async with open_embedded_postgres(places.data_dir) as server:
            report(CATALOG, f"Postgres ready in {asyncio.get_running_loop().time() - begun:.1f} s")
            watching = asyncio.create_task(server.watch(), name="postgres")
            try:
                yield server.url
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
        report(CATALOG, "Postgres stopped")
    finally:
        guard.forget_postgres(postmaster)


@asynccontextmanager
async def _store(settings: Settings, *, catalog_url: str, report: Report) -> AsyncIterator[None]:
    """Own the process of an embedded engine, so that children may come and go; other stores need nothing here."""
    described = describe_store(settings)
    if not settings.store.embedded:
        report(STORE, described)
        yield
        return
    begun = asyncio.get_running_loop().time()
    async with open_store(settings.store.kind, settings.store_options(catalog_url=catalog_url)):
        report(STORE, f"ready in {asyncio.get_running_loop().time() - begun:.1f} s: {described}")
        yield
    report(STORE, "stopped")


async def _prepare_models(
    settings: Settings, places: Places, *, accelerator: Accelerator, report: Report, stop: Stop
) -> None:
    """Make the folders of models where they are missing, so that the children find them.

    Raises ``ConfigurationError`` when embedder or reranker cannot be had; the generator may be missing.
    """
    needed = list(retrieval_models(settings, accelerator=accelerator))
    others = [name for name in wanted_models(settings, accelerator=accelerator) if name not in needed]
    for names in (needed, others):
        missing = await asyncio.to_thread(missing_models, settings, names)
        if missing:
            report(MODELS, f"making the folders of {', '.join(missing)}, which is done once")
        environment = common_environment(places)
        preparing = prepare_in_child(missing, environment=environment, report=lambda line: report(MODELS, line))
        try:
            await _until_stopped(preparing, stop)
        except AnchorageError as error:
            if names is needed:
                raise
            report(MODELS, error.message)


async def _until_stopped(work: Awaitable[object], stop: Stop) -> None:
    working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.asked.wait())
    try:
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working
    finally:
        for task in (working, stopped):
            task.cancel()
        await asyncio.gather(working, stopped, return_exceptions=True)
