"""``anchorage up``: everything under one supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rag.cli.options import chosen_settings, data_dir_option

if TYPE_CHECKING:
    from rag.settings import Settings


@click.command(short_help="Start everything: Postgres, API, worker and vLLM, kept running.")
@click.option(
    "--detach", is_flag=True, help="Start in the background unless it runs already; come back when it answers."
)
@click.option(
    "--wait", type=click.Choice(["api", "generation"]), help="With --detach: what to wait for [default: api]."
)
@click.option("--stop", is_flag=True, help="Stop the service on the data folder, and wait until it has ended.")
@data_dir_option
def up(*, detach: bool, wait: str | None, stop: bool) -> int | None:
    """Start everything on one data folder and keep it running; what dies is started again.

    Runs the embedded Postgres (unless ANCHORAGE_CATALOG__URL names one), the API, the ingest worker, and vLLM
    where its environment exists; without vLLM, answers are extractive. Ctrl-C or SIGTERM finishes what is in
    progress and leaves nothing behind. Logs lie in the data folder under logs/. With --wait generation it ends
    with 3 when vLLM is there but does not come up.

    \b
    Examples:
      anchorage up
      anchorage up --detach --wait generation
      anchorage up --stop
    """  # noqa: D301
    if wait and not detach:
        raise click.UsageError("--wait belongs to --detach")
    if stop and detach:
        raise click.UsageError("--stop and --detach exclude each other")
    settings = chosen_settings()
    if stop:
        from rag.cli.detached import stop_service

        return stop_service(settings.data_dir)
    if detach:
        from rag.cli.detached import start_service

        return start_service(settings.data_dir, wait=wait or "api")
    _run(settings)
    return None


def _run(settings: Settings) -> None:
    import asyncio

    from rag.cli.logs import log_to_stderr
    from rag.supervision.lock import hold_folder

    log_to_stderr("WARNING")
    with hold_folder(settings.data_dir) as lock:

        async def run() -> None:
            import signal

            from rag.supervision.supervisor import Stop, supervise

            stop = Stop()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, stop.ask)
            await supervise(settings, lock=lock, report=_Reporter(), stop=stop)

        asyncio.run(run())


class _Reporter:
    """Writes one line a report, with the seconds since the start."""

    def __init__(self) -> None:
        import time

        self._clock = time.monotonic
        self._begun = time.monotonic()

    def __call__(self, name: str, message: str) -> None:
        from contextlib import suppress

        # A terminal that was closed must not end the service.
        with suppress(OSError):
            click.echo(f"{self._clock() - self._begun:6.1f}s  {name:8} {message}")
