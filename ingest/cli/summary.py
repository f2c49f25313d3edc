"""What an ingest run tells at its end: a table or a JSON document, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from ingest.cli.batch import Row, count_states
from rag.cli.exits import ExitCode, outcome
from rag.cli.output import note, print_json
from rag.cli.tables import table

SHOWN_MESSAGES = 20


def print_report(rows: Sequence[Row], *, collection: str, as_json: bool) -> None:
    """Print a row for each document."""
    if as_json:
        print_json({"collection": collection, "documents": list(map(_as_json, rows)), "counts": count_states(rows)})
        return
    columns = ["source", "state", "quality", "chunks", "error"]
    click.echo(table(columns, [[row.source, row.state, row.quality, row.chunks, row.code] for row in rows]))
    for row in [row for row in rows if row.message][:SHOWN_MESSAGES]:
        note(f"{row.source}: {row.message}")
    counts = ", ".join(f"{count} {state}" for state, count in count_states(rows).items())
    unchanged = sum(row.unchanged for row in rows)
    click.echo(f"\n{len(rows)} documents: {counts}" + (f" ({unchanged} unchanged)" if unchanged else ""))


def ingest_exit_code(rows: Sequence[Row], *, waited: bool) -> ExitCode:
    """Failed and unsupported files are failures, and so is what has not ended although it was waited for."""
    failed = sum(row.failed or (waited and row.pending) for row in rows)
    return outcome(succeeded=len(rows) - failed, failed=failed)


def _as_json(row: Row) -> dict[str, object]:
    document = asdict(row)
    code, message = document.pop("code"), document.pop("message")
    return {**document, "error": {"code": code, "message": message} if code else None}
