"""Hits, citations and what was degraded, as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from rag.cli.output import note, terminal_columns
from rag.cli.tables import printable, shorten

_INDENT = "    "


def print_hits(result: Mapping[str, Any]) -> None:
    """Print the hits of a search, best first, then what did not work or did not apply."""
    for number, hit in enumerate(result["hits"], start=1):
        click.echo(f"{number:2}. {place(hit)}  {_score(hit)}")
        click.echo(_INDENT + shorten(str(hit.get("text", "")), 3 * terminal_columns()))
    if not result["hits"]:
        note("nothing was found")
    print_limits(result)


def print_citations(citations: Sequence[Mapping[str, Any]]) -> None:
    """Print numbered citations: where from, and the quoted words."""
    for citation in citations:
        click.echo(f"[{citation['marker']}] {place(citation)}")
        click.echo(f"{_INDENT}“{shorten(str(citation.get('quote', '')), 2 * terminal_columns())}”")


def print_limits(result: Mapping[str, Any]) -> None:
    """Say on standard error what was degraded or skipped, and whether hits are missing."""
    degraded = [str(stage) for stage in result.get("degraded") or ()]
    if degraded:
        note(f"degraded: {', '.join(degraded)} did not work; the result was made without")
    for skip in result.get("skipped") or ():
        note(f"skipped: {skip.get('stage')} ({skip.get('reason')})")
    if result.get("shortfall"):
        note("there are fewer hits than asked for")


def place(passage: Mapping[str, Any]) -> str:
    """Return where a passage stands: source, title, page, headings, and how much of it was parsed."""
    parts = [str(passage.get("source") or passage.get("document") or "?")]
    title = passage.get("title")
    if title and title != parts[0]:
        parts.append(f"— {title}")
    if passage.get("page") is not None:
        parts.append(f"(page {passage['page']})")
    if passage.get("headings"):
        parts.append(f"§ {' › '.join(map(str, passage['headings']))}")
    if passage.get("quality") not in {None, "full"}:
        parts.append(f"[{passage['quality']}]")
    return printable(" ".join(" ".join(parts).split()))


def _score(hit: Mapping[str, Any]) -> str:
    score = hit.get("score")
    return "" if score is None else f"{score:.3f}"
