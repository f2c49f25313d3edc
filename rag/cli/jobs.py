"""``anchorage jobs``: what the ingest worker has to do, and what is stuck."""

from __future__ import annotations

from typing import Any

import click

from rag.cli.options import json_option, service_options


@click.command(short_help="List ingest jobs, or only the stuck ones.")
@click.option("--stuck", is_flag=True, help="Only jobs whose worker has stopped.")
@json_option
@service_options
def jobs(*, stuck: bool, as_json: bool) -> None:
    """List the jobs of the queue. A stuck job says that it runs, but its worker gives no sign of life.

    \b
    Examples:
      anchorage jobs
      anchorage jobs --stuck --json
    """  # noqa: D301
    from rag.cli.client import call
    from rag.cli.output import print_json
    from rag.cli.tables import table

    listing = call(_jobs(stuck=stuck))
    if as_json:
        print_json(listing)
        return
    columns = ("id", "task", "status", "document", "attempts", "scheduled_at", "started_at")
    rows = [[*(job.get(name) for name in columns), "stuck" if job.get("stuck") else None] for job in listing["jobs"]]
    click.echo(table(["job", *columns[1:], "stuck"], rows))
    counts = listing.get("counts") or {}
    click.echo(", ".join(f"{count} {state}" for state, count in counts.items()) or "no jobs")


async def _jobs(*, stuck: bool) -> dict[str, Any]:
    from rag.cli.client import connect, path

    async with connect() as service:
        return await service.get(path("jobs"), stuck="true" if stuck else None)
