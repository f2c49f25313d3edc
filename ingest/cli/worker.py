"""``anchorage worker``: the ingest worker alone."""

from __future__ import annotations

import click

from rag.cli.options import chosen_settings, data_dir_option


@click.command(short_help="Run the ingest worker in the foreground.")
@data_dir_option
def worker() -> None:
    """Run an ingest worker in the foreground: it takes jobs until it is asked to end, and finishes its last ones.

    `anchorage up` runs one with everything else; further ones may run beside it.

    \b
    Example:
      anchorage worker --data-dir /srv/anchorage
    """  # noqa: D301
    import asyncio

    from ingest.wiring import run_worker
    from rag.cli.logs import log_to_stderr

    settings = chosen_settings()
    log_to_stderr(settings.log_level)
    asyncio.run(run_worker(settings))
