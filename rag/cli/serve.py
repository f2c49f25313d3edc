"""``anchorage serve``: the API process alone."""

from __future__ import annotations

import click

from rag.cli.options import chosen_settings, data_dir_option


@click.command(short_help="Run the API in the foreground, without worker and vLLM.")
@click.option("--host", metavar="ADDRESS", help="Where to listen [default: as configured, else 127.0.0.1].")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on [default: as configured, else 8080].")
@data_dir_option
def serve(*, host: str | None, port: int | None) -> None:
    """Run the API process in the foreground. `anchorage up` runs it with everything else.

    \b
    Examples:
      anchorage serve
      ANCHORAGE_CATALOG__URL=postgresql://db/anchorage anchorage serve --host 0.0.0.0
    """  # noqa: D301
    from rag.cli.logs import log_to_stderr
    from rag.wiring import run_service

    settings = chosen_settings()
    changes = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    settings = settings.model_copy(update={"http": settings.http.model_copy(update=changes)})
    log_to_stderr(settings.log_level)
    run_service(settings)
