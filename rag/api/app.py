"""The application: routes, errors and the parts that it opens and closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import Depends, FastAPI

from rag.api import answer, collections, documents, health, ingestion, jobs, search
from rag.api.deps import check_query
from rag.api.disconnect import end
from rag.api.documentation import described
from rag.api.limits import Limits
from rag.api.middleware import RequestMiddleware
from rag.api.problems import HANDLED, answer_error
from rag.api.shutdown import Shutdown
from rag.services import Services
from rag.telemetry import sample_loop_lag

UPLOADS_IN_MEMORY = 4
"""How many files are held whole at once while they are kept; the others wait on disk."""

ROUTERS = (search, answer, documents, ingestion, collections, jobs)


def create_app(
    open_services: Callable[[], AbstractAsyncContextManager[Services]],
    *,
    limits: Limits = Limits(),  # noqa: B008  frozen
    version: str = "0",
) -> FastAPI:
    """The REST interface over the parts that ``open_services`` opens when the application starts.

    Its state carries ``services``, ``limits`` and ``shutdown`` while it runs.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.shutdown = Shutdown()
        app.state.upload_slots = asyncio.Semaphore(UPLOADS_IN_MEMORY)
        lag = asyncio.create_task(sample_loop_lag(), name="event loop lag")
        try:
            async with open_services() as services:
                app.state.services = services
                yield
        finally:
            await end(lag)

    app = FastAPI(
        title="Anchorage",
        version=version,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.limits = limits
    app.add_middleware(RequestMiddleware)
    for error in HANDLED:
        app.add_exception_handler(error, answer_error)
    for module in ROUTERS:
        app.include_router(module.router, dependencies=[Depends(check_query)])
    app.include_router(health.router)
    app.openapi = described(app)  # type: ignore[method-assign]
    return app
