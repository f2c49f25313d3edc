"""``anchorage ingest``: files and folders into a collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rag.cli.options import collection_option, json_object, json_option, service_options

if TYPE_CHECKING:
    from ingest.cli.batch import Batch, Row
    from ingest.cli.discovery import Fault, Found


@click.command(short_help="Add files and folders to a collection.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True, path_type=Path))
@collection_option
@click.option("--recursive", is_flag=True, help="Enter the folders inside of a folder too.")
@click.option("--metadata", type=json_object, default="{}", metavar="JSON", help="Metadata for every document.")
@click.option("--no-wait", is_flag=True, help="Come back after the upload; the service goes on with the rest.")
@click.option("--concurrency", type=click.IntRange(1, 32), default=4, show_default=True, help="Uploads at a time.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    help="Give up waiting when nothing has changed for so many seconds.",
)
@json_option
@service_options
def ingest(
    *,
    paths: tuple[Path, ...],
    collection: str,
    recursive: bool,
    metadata: Mapping[str, Any],
    no_wait: bool,
    concurrency: int,
    timeout: float,
    as_json: bool,
) -> int:
    """Add files to a collection, which is created where it is missing, and wait until they can be found.

    A document's source is its path relative to the given folder, or its name when the file itself is given.
    Hidden files are skipped. What is there already with the same bytes is not ingested again, so running the
    same command once more goes on where it was interrupted. One failed file does not stop the others: it ends
    with 3 when some failed, 1 when all did.

    \b
    Examples:
      anchorage ingest report.pdf -c notes
      anchorage ingest notes/ -c notes --recursive --metadata '{"team": "search"}'
      anchorage ingest notes/ -c notes --recursive --json > report.json
    """  # noqa: D301
    from ingest.cli.batch import Upload
    from ingest.cli.summary import ingest_exit_code, print_report
    from rag.cli.client import call

    files, faults = _discover(paths, recursive=recursive)
    upload = Upload(collection=collection, metadata=metadata, concurrency=concurrency)
    rows = call(_ingest(upload, files, faults, timeout=None if no_wait else timeout))
    print_report(rows, collection=collection, as_json=as_json)
    return ingest_exit_code(rows, waited=not no_wait)


def _discover(paths: Sequence[Path], *, recursive: bool) -> tuple[list[Found], list[Fault]]:
    from ingest.cli.discovery import Fault, Found, LeftOut, discover
    from rag.cli.output import note

    items = list(discover(paths, recursive=recursive))
    left_out = [item.path for item in items if isinstance(item, LeftOut)]
    if left_out:
        note(f"{len(left_out)} folders were not entered, such as {left_out[0]}; --recursive enters them")
    files, faults = [i for i in items if isinstance(i, Found)], [i for i in items if isinstance(i, Fault)]
    if not files and not faults:
        raise click.ClickException(f"there are no files in {', '.join(map(str, paths))}")
    return files, faults


async def _ingest(upload: Any, files: list[Found], faults: list[Fault], *, timeout: float | None) -> list[Row]:
    import asyncio

    from ingest.cli.batch import BACKLOG_PATIENCE, Batch, ensure_collection
    from rag.cli.client import connect
    from rag.cli.output import Progress

    progress = Progress()
    async with connect() as service:
        await ensure_collection(service, upload.collection)
        patience = BACKLOG_PATIENCE if timeout is None else timeout
        batch = Batch(service, upload, backlog_patience=patience, show=progress.show)
        try:
            await batch.upload_all(files)
            batch.note_faults(faults)
            if timeout is not None:
                await batch.follow(timeout=timeout)
        except asyncio.CancelledError:
            progress.clear()
            _tell_interrupted(batch, total=len(files))
            raise
        finally:
            progress.clear()
    return batch.in_order(files)


def _tell_interrupted(batch: Batch, *, total: int) -> None:
    from rag.cli.output import note

    note(
        f"interrupted: {batch.uploaded} of {total} files are uploaded, and the service goes on with them;"
        " run the same command again for the rest"
    )
