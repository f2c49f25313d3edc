"""``anchorage rebuild``: the index made again from the catalog and the files."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from rag.cli.confirmation import confirmed
from rag.cli.exits import ExitCode
from rag.cli.options import chosen_settings, data_dir_option, json_option
from rag.cli.tables import counted
from rag.core.errors import CollectionNotFoundError, ConflictError

if TYPE_CHECKING:
    from rag.catalog.inspection import StoreNote
    from rag.maintenance import RebuildProgress
    from rag.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a rebuild came to."""

    collections: int
    created: int
    queued: int
    now: RebuildProgress
    waited: bool

    @property
    def exit_code(self) -> ExitCode:
        """3 when documents could not be ingested, or are left although they were waited for."""
        unfinished = self.waited and self.now.left
        return ExitCode.PARTLY_FAILED if self.now.failed or unfinished else ExitCode.OK

    def as_json(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        counts = {"collections": self.collections, "created": self.created, "queued": self.queued}
        return {**counts, "left": self.now.left, "failed": self.now.failed, "workers": self.now.workers}

    def described(self) -> str:
        """The outcome in words."""
        done = f"{self.created} created in the store, {counted(self.queued, 'documents')} queued"
        lines = [f"{counted(self.collections, 'collections')}: {done}"]
        left, failed = counted(self.now.left, "documents"), counted(self.now.failed, "documents")
        if self.now.failed:
            lines.append(f"{failed} could not be ingested: `anchorage documents list --state failed` says why")
        if self.now.left and not self.now.workers:
            lines.append(f"{left} left for a worker: start the service with `anchorage up`")
        elif self.now.left:
            lines.append(f"{left} left, being ingested")
        elif not self.now.failed:
            lines.append("the index is made again")
        return "\n".join(lines)


@click.command(short_help="Make the index again from the catalog and the files.")
@click.argument("collection", required=False)
@click.option("--all", "everything", is_flag=True, help="All collections; also moves them to the configured store.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the documents are ingested.")
@json_option
@data_dir_option
def rebuild(*, collection: str | None, everything: bool, yes: bool, no_wait: bool, as_json: bool) -> int:
    """Make the index of COLLECTION again: every document is ingested anew from its original.

    What is served stays served until its new records take its place; a physical collection that is gone is
    created. Interrupted, it goes on where it was when it is run again. With --all it also accepts that another
    store is configured than the data is indexed in. Where no worker runs the documents wait for the next one.
    Ends with 3 when documents could not be ingested, or the worker ended before they all were.

    \b
    Examples:
      anchorage rebuild notes
      ANCHORAGE_STORE__KIND=qdrant anchorage rebuild --all --yes
    """  # noqa: D301
    import asyncio

    from rag.cli.output import print_json

    if everything == (collection is not None):
        raise click.UsageError("name one COLLECTION, or say --all")
    what = "all collections" if collection is None else f"the collection {collection}"
    if not yes and not confirmed(f"Ingest every document of {what} again?"):
        raise click.Abort
    outcome = asyncio.run(_rebuild(chosen_settings(), collection, wait=not no_wait))
    if as_json:
        print_json(outcome.as_json())
    else:
        click.echo(outcome.described())
    return outcome.exit_code


async def _rebuild(settings: Settings, collection: str | None, *, wait: bool) -> Outcome:
    import asyncio

    from rag.cli.output import Progress
    from rag.maintenance import Rebuild
    from rag.wiring import open_parts, store_of
    from rag.wiring.store_identity import write_note

    progress = Progress()
    try:
        async with open_parts(settings, moving=collection is None) as parts:
            collections = await parts.catalog.inspected_collections(collection)
            if collection is not None and not collections:
                raise CollectionNotFoundError(f"no collection {collection!r}")
            await _require_stopped_where_moved(settings, await parts.catalog.noted_store())
            work = Rebuild(parts, collections, store_of(settings))
            created, queued = await work.begin()
            await asyncio.to_thread(write_note, settings, store_of(settings))
            now = await work.progress()
            waited = wait and now.workers > 0
            if wait:
                async for now in work.watch():
                    progress.show(f"{now.left} documents left, {now.failed} failed")
            return Outcome(collections=len(collections), created=created, queued=queued, now=now, waited=waited)
    finally:
        progress.clear()


async def _require_stopped_where_moved(settings: Settings, noted: StoreNote | None) -> None:
    """A service that runs on the old store would go on to write to it."""
    import asyncio

    from rag.wiring import store_of

    moved = noted is not None and noted != store_of(settings)
    if moved and await asyncio.to_thread(_service_runs, settings):
        raise ConflictError("a service runs on the old store: stop it with `anchorage up --stop`, then run this again")


def _service_runs(settings: Settings) -> bool:
    from rag.supervision.lock import is_running, read_owner

    if read_owner(settings.data_dir) is not None:
        return True
    with suppress(OSError, ValueError, KeyError, TypeError):
        address = json.loads((settings.data_dir / "run" / "service.json").read_text(encoding="utf-8"))
        return is_running(int(address["pid"]))
    return False
