"""Running the service: its port, its models' socket, its end."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path

from uvicorn.loops.auto import auto_loop_factory

from rag.api.app import create_app
from rag.api.limits import Limits
from rag.api.server import address_of, bind_port, bind_socket, published_address, request_ender, serve_app
from rag.embedding import create_model_host
from rag.services import Services
from rag.settings import Settings
from rag.wiring.services import open_services


def socket_of_models(settings: Settings) -> Path:
    """The Unix socket on which the service process shares its models with the worker."""
    return settings.data_dir / "run" / "models.sock"


def limits_of(settings: Settings) -> Limits:
    """What the REST interface accepts under these settings."""
    return Limits(
        max_upload=settings.http.max_upload_bytes,
        max_json=settings.http.max_json_bytes,
        mode=settings.search.mode,
        limit=settings.search.limit,
        answer_hits=settings.search.answer_hits,
        deadline=settings.search.deadline,
        answer_deadline=settings.search.answer_deadline,
        max_deadline=settings.search.max_deadline,
        stalled_after=settings.ingest.stalled_after,
    )


def run_service(settings: Settings) -> None:
    """Run the service until SIGTERM or SIGINT, on the fastest event loop that is installed.

    Raises ``ConfigurationError``, such as ``PortTakenError``, before anything answers.
    """
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(serve(settings))
    # With a model in memory the interpreter's last collection was measured at 26 s; the process frees it all anyway.
    gc.freeze()


async def serve(settings: Settings) -> None:
    """Serve the API on its port and the models on their socket until SIGTERM or SIGINT; then drain.

    Says in ``run/service.json`` where it is while it answers. Raises as :func:`run_service`.
    """
    models = socket_of_models(settings)
    with ExitStack() as stack:
        listener = stack.enter_context(bind_port(settings.http.host, settings.http.port))
        sharing = stack.enter_context(bind_socket(models))
        stack.callback(models.unlink, missing_ok=True)
        stop = stack.enter_context(_stop_by_signal())
        async with open_services(settings) as services:
            await _serve_both(settings, services, listener=listener, sharing=sharing, stop=stop)


async def _serve_both(
    settings: Settings, services: Services, *, listener: socket.socket, sharing: socket.socket, stop: asyncio.Event
) -> None:
    app = create_app(lambda: nullcontext(services), limits=limits_of(settings), version=version("anchorage"))
    host = create_model_host(services.embedder, services.scorer)
    drain_timeout = settings.http.drain_timeout
    drained = asyncio.Event()
    with published_address(settings.data_dir / "run" / "service.json", address_of(listener)):
        async with asyncio.TaskGroup() as group:
            group.create_task(serve_app(host, sharing, stop=drained, drain_timeout=0), name="model host")
            end_requests = request_ender(app, drain_timeout)
            await serve_app(app, listener, stop=stop, drain_timeout=drain_timeout, end_requests=end_requests)
            drained.set()


@contextmanager
def _stop_by_signal() -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set while the ``with`` body runs."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    for each in signals:
        loop.add_signal_handler(each, stop.set)
    try:
        yield stop
    finally:
        for each in signals:
            loop.remove_signal_handler(each)
