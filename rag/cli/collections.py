"""``anchorage collections``: list, create and delete collections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rag.cli.confirmation import confirmed
from rag.cli.options import FIELD_TYPES, METRICS, json_option, service_options


@click.group(short_help="List, create and delete collections.")
@service_options
def collections() -> None:
    """List, create and delete collections: named sets of documents with one embedding model.

    \b
    Examples:
      anchorage collections list
      anchorage collections create notes --field year:integer --field tags:strings
      anchorage collections delete notes
    """  # noqa: D301


@collections.command("list")
@json_option
@service_options
def list_collections(*, as_json: bool) -> None:
    """List the collections with their size."""
    from rag.cli.client import call
    from rag.cli.output import print_json
    from rag.cli.tables import table

    listing = call(_list())
    if as_json:
        print_json(listing)
        return
    names = ("name", "documents", "chunks", "embedding_model", "dimension", "metric")
    rows = [[found.get(name) for name in names] for found in listing["collections"]]
    click.echo(table(["collection", "documents", "chunks", "embedding model", "dimension", "metric"], rows))


async def _list() -> dict[str, Any]:
    from rag.cli.client import connect, path

    async with connect() as service:
        return await service.get(path("collections"))


@collections.command("create")
@click.argument("name")
@click.option(
    "--field", "fields", multiple=True, metavar="NAME:TYPE", help="A metadata field to filter by; repeatable."
)
@click.option("--embedding-model", metavar="NAME", help="Must be the model that the service is configured with.")
@click.option("--metric", type=click.Choice(METRICS), help="How vectors are compared [default: cosine].")
@json_option
@service_options
def create_collection(
    *,
    name: str,
    fields: tuple[str, ...],
    embedding_model: str | None,
    metric: str | None,
    as_json: bool,
) -> None:
    """Create the collection NAME; one that exists with the same settings is left as it is.

    TYPE is one of string, integer, float, boolean, datetime, strings (a list of them).
    """
    from rag.cli.client import call
    from rag.cli.output import print_json

    body: dict[str, Any] = {"name": name, "fields": dict(map(parse_field, fields))}
    body |= {"embedding_model": embedding_model} if embedding_model else {}
    body |= {"metric": metric} if metric else {}
    created, view = call(_create(body))
    if as_json:
        print_json(view)
    else:
        click.echo(f"{'created' if created else 'there already:'} {view['name']}")


def parse_field(declaration: str) -> tuple[str, str]:
    """Split ``name:type``; a type that there is not is a usage error."""
    name, colon, kind = declaration.rpartition(":")
    if not colon or not name or kind not in FIELD_TYPES:
        raise click.BadParameter(f"{declaration!r} is not NAME:TYPE with a type of {', '.join(FIELD_TYPES)}")
    return name, kind


async def _create(body: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
    from rag.cli.client import connect, decode, path

    async with connect() as service:
        response = await service.request("POST", path("collections"), json=dict(body))
        return response.status_code == 201, decode(response)


@collections.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@service_options
def delete_collection(*, name: str, yes: bool) -> None:
    """Delete the collection NAME with all of its documents."""
    from rag.cli.client import call

    if yes or confirmed(f"Delete the collection {name} with all of its documents?"):
        call(_delete(name))
        click.echo(f"deleted {name}")


async def _delete(name: str) -> None:
    from rag.cli.client import connect, path

    async with connect() as service:
        await service.delete(path("collections", name))
