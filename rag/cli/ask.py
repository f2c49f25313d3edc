"""``anchorage ask``: an answer with citations, written as it comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rag.cli.options import MODES, collection_option, json_object, json_option, service_options


@click.command(short_help="Answer a question from a collection, with citations.")
@click.argument("question")
@collection_option
@click.option("--limit", type=click.IntRange(min=1), help="Passages to answer from [default: as configured, else 5].")
@click.option("--mode", type=click.Choice(MODES), help="First stage [default: as the service is configured].")
@click.option("--filter", "filter", type=json_object, metavar="JSON", help="Keep only documents whose metadata pass.")
@json_option
@service_options
def ask(
    *,
    question: str,
    collection: str,
    limit: int | None,
    mode: str | None,
    filter: Mapping[str, Any] | None,
    as_json: bool,
) -> None:
    """Answer QUESTION from the documents of a collection. The text is written as it comes, citations follow.

    \b
    Examples:
      anchorage ask -c notes "Who released Milvus?"
      anchorage ask -c notes "谁发布了 Milvus？" --json
    """  # noqa: D301
    from rag.cli.client import call

    body: dict[str, Any] = {"query": question}
    body |= {"limit": limit} if limit else {}
    body |= {"mode": mode} if mode else {}
    body |= {"filter": filter} if filter is not None else {}
    call(_answer(collection, body) if as_json else _stream(collection, body))


async def _answer(collection: str, body: Mapping[str, Any]) -> None:
    from rag.cli.client import connect, path
    from rag.cli.output import print_json

    async with connect() as service:
        print_json(await service.post(path("collections", collection, "answer"), body))


async def _stream(collection: str, body: Mapping[str, Any]) -> None:
    from rag.cli.client import connect, path

    async with connect() as service:
        route = path("collections", collection, "answer")
        await _print_events(service.events(route, {**body, "stream": True}), url=service.url)


async def _print_events(events: Any, *, url: str) -> None:
    from rag.cli.exits import ServiceUnreachableError
    from rag.cli.tables import printable

    begun = False
    async for name, data in events:
        if name == "delta":
            click.echo(printable(str(data.get("text", ""))), nl=False)
            begun = True
        elif name == "error":
            _fail(data, begun=begun)
        elif name == "done":
            _finish(data, begun=begun)
            return
    raise ServiceUnreachableError(f"the service at {url} broke off before the answer was complete")


def _finish(answer: Mapping[str, Any], *, begun: bool) -> None:
    from rag.cli.passages import print_citations, print_limits

    click.echo("" if begun else str(answer.get("text") or "(no answer)"))
    if answer.get("citations"):
        click.echo("")
        print_citations(answer["citations"])
    print_limits(answer)


def _fail(problem: Mapping[str, Any], *, begun: bool) -> None:
    from rag.cli.exits import RefusedError

    if begun:
        click.echo("")
    raise RefusedError(
        str(problem.get("detail") or problem.get("message") or "the answer failed"),
        refusal=str(problem.get("code") or "error"),
        http_status=int(problem.get("status") or 500),
    )
