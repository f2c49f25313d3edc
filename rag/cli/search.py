"""``anchorage search``: the passages that answer a query best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rag.cli.options import MODES, collection_option, json_object, json_option, service_options


@click.command(short_help="Find the best passages for a query.")
@click.argument("query")
@collection_option
@click.option("--limit", type=click.IntRange(min=1), help="At most so many hits [default: as configured, else 10].")
@click.option("--mode", type=click.Choice(MODES), help="First stage [default: as the service is configured].")
@click.option("--filter", "filter", type=json_object, metavar="JSON", help="Keep only documents whose metadata pass.")
@click.option("--no-rerank", is_flag=True, help="Keep the order of the first stage.")
@json_option
@service_options
def search(
    *,
    query: str,
    collection: str,
    limit: int | None,
    mode: str | None,
    filter: Mapping[str, Any] | None,
    no_rerank: bool,
    as_json: bool,
) -> None:
    """Find the passages of a collection that answer QUERY best, best first.

    \b
    Examples:
      anchorage search -c notes "vector index"
      anchorage search -c notes "向量数据库" --limit 3 --mode lexical
      anchorage search -c notes "budget" --filter '{"type": "gte", "key": "year", "value": 2024}'
    """  # noqa: D301
    from rag.cli.client import call
    from rag.cli.output import print_json
    from rag.cli.passages import print_hits

    body: dict[str, Any] = {"query": query, "rerank": not no_rerank}
    body |= {"limit": limit} if limit else {}
    body |= {"mode": mode} if mode else {}
    body |= {"filter": filter} if filter is not None else {}
    result = call(_search(collection, body))
    (print_json if as_json else print_hits)(result)


async def _search(collection: str, body: Mapping[str, Any]) -> dict[str, Any]:
    from rag.cli.client import connect, path

    async with connect() as service:
        return await service.post(path("collections", collection, "search"), body)
