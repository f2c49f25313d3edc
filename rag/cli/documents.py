"""``anchorage documents``: list, show, delete, retry and cancel documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rag.cli.confirmation import confirmed
from rag.cli.options import STATES, collection_option, json_option, service_options

_PAGE = 200
_COLUMNS = ("id", "source", "state", "quality", "chunks", "error")


@click.group(short_help="List, show, delete, retry and cancel documents.")
@service_options
def documents() -> None:
    """List, show, delete, retry and cancel the documents of a collection.

    \b
    Examples:
      anchorage documents list -c notes --state failed
      anchorage documents show -c notes 6f1c3f0a-6a55-5d0c-9d0e-1b7f3f4f6c11 --chunks
      anchorage documents retry -c notes 6f1c3f0a-6a55-5d0c-9d0e-1b7f3f4f6c11
      anchorage documents cancel -c notes 6f1c3f0a-6a55-5d0c-9d0e-1b7f3f4f6c11
    """  # noqa: D301


@documents.command("list")
@collection_option
@click.option("--state", type=click.Choice(STATES), help="Only documents in this state.")
@click.option("--source", metavar="SOURCE", help="Only the document with this source.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
@json_option
@service_options
def list_documents(
    *,
    collection: str,
    state: str | None,
    source: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List documents with their state."""
    from rag.cli.client import call
    from rag.cli.output import note, print_json
    from rag.cli.tables import table

    listing = call(_list(collection, {"state": state, "source": source}, limit=limit))
    if as_json:
        print_json(listing)
        return
    click.echo(table(_COLUMNS, [_row(document) for document in listing["documents"]]))
    shown, total = len(listing["documents"]), listing["total"]
    if shown < total:
        note(f"{shown} of {total} documents; more with --limit")


def _row(document: Mapping[str, Any]) -> list[object]:
    error = document.get("error") or {}
    state = f"{document['state']} ({document['stage']})" if document.get("stage") else document["state"]
    return [
        document["id"],
        document["source"],
        state,
        document.get("quality"),
        document.get("chunks"),
        error.get("code"),
    ]


async def _list(collection: str, query: Mapping[str, str | None], *, limit: int) -> dict[str, Any]:
    from rag.cli.client import connect, path

    found, cursor, total = list[Any](), None, 0
    async with connect() as service:
        while len(found) < limit:
            wanted = min(_PAGE, limit - len(found))
            page = await service.get(path("collections", collection, "documents"), limit=wanted, cursor=cursor, **query)
            found, cursor, total = found + page["documents"], page.get("next"), page.get("total", 0)
            if cursor is None:
                break
    return {"documents": found, "next": cursor, "total": total}


@documents.command("show")
@click.argument("document")
@collection_option
@click.option("--chunks", is_flag=True, help="Show the chunks too.")
@json_option
@service_options
def show_document(*, document: str, collection: str, chunks: bool, as_json: bool) -> None:
    """Show one DOCUMENT, by its id: where it stands, every attempt at it, and its chunks."""
    from rag.cli.client import call
    from rag.cli.output import print_json

    view = call(_show(collection, document, chunks=chunks))
    if as_json:
        print_json(view)
        return
    for name, value in view.items():
        if name not in {"chunk_list", "attempts"} and value not in (None, {}, []):
            click.echo(f"{name:14} {_text(value)}")
    for number, attempt in enumerate(view.get("attempts") or (), start=1):
        click.echo(f"attempt {number:<6} {_text(attempt)}")
    for chunk in view.get("chunk_list") or ():
        _print_chunk(chunk)


def _text(value: object) -> str:
    from rag.cli.tables import printable

    if isinstance(value, list | tuple):
        return "; ".join(map(_text, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(part)}" for name, part in value.items() if part is not None)
    return printable(" ".join(str(value).split()))


def _print_chunk(chunk: Mapping[str, Any]) -> None:
    from rag.cli.tables import printable

    page = f", page {chunk['page']}" if chunk.get("page") is not None else ""
    click.echo(f"\n--- chunk {chunk['index']}: characters {chunk['start']} to {chunk['end']}{page}")
    click.echo(printable(chunk["text"]))


async def _show(collection: str, document: str, *, chunks: bool) -> dict[str, Any]:
    from rag.cli.client import connect, path

    async with connect() as service:
        view = await service.get(path("collections", collection, "documents", document))
        if chunks:
            listing = await service.get(path("collections", collection, "documents", document, "chunks"))
            view = {**view, "chunk_list": listing["chunks"]}
    return view


@documents.command("delete")
@click.argument("document")
@collection_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@service_options
def delete_document(*, document: str, collection: str, yes: bool) -> None:
    """Delete one DOCUMENT, by its id; it is found no more from then on."""
    from rag.cli.client import call

    if yes or confirmed(f"Delete the document {document}?"):
        call(_delete(collection, document))
        click.echo(f"deleted {document}")


async def _delete(collection: str, document: str) -> None:
    from rag.cli.client import connect, path

    async with connect() as service:
        await service.delete(path("collections", collection, "documents", document))


@documents.command("retry")
@click.argument("document")
@collection_option
@json_option
@service_options
def retry_document(*, document: str, collection: str, as_json: bool) -> None:
    """Ingest one DOCUMENT again, by its id; what is served now stays until the new attempt is done."""
    _act(document, collection, "retry", as_json=as_json)


@documents.command("cancel")
@click.argument("document")
@collection_option
@json_option
@service_options
def cancel_document(*, document: str, collection: str, as_json: bool) -> None:
    """Stop ingesting one DOCUMENT, by its id; what is served now stays, and a degraded one is left as it is."""
    _act(document, collection, "cancel", as_json=as_json)


def _act(document: str, collection: str, action: str, *, as_json: bool) -> None:
    from rag.cli.client import call
    from rag.cli.output import print_json

    view = call(_post(collection, document, action))
    if as_json:
        print_json(view)
    else:
        click.echo(f"{view['state']} {view['source']}")


async def _post(collection: str, document: str, action: str) -> dict[str, Any]:
    from rag.cli.client import connect, path

    async with connect() as service:
        return await service.post(path("collections", collection, "documents", document, action))
