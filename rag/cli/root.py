"""The root command: finds its sub-commands through the entry-point group ``anchorage.commands``.

Only the module of the command that runs is imported, and ``--help`` imports all of them for their first
line: a command's module is therefore light, and imports what is heavy inside its function.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any, TextIO

import click

from rag.cli.exits import ExitCode, code_of, exit_code
from rag.cli.options import data_dir_option, url_option
from rag.core.errors import AnchorageError

COMMANDS = "anchorage.commands"

_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Run the service": ("up", "serve", "worker", "models", "check-config", "version"),
    "Use a running service": ("ingest", "search", "ask", "collections", "documents", "jobs"),
    "Keep its data in order": ("doctor", "rebuild"),
}
_OTHERS = "More"


class EntryPointGroup(click.Group):
    """A group whose commands are entry points, loaded when they are asked for."""

    def __init__(self, *, offers: Iterable[EntryPoint] | None = None, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._given = offers

    @cached_property
    def offers(self) -> Mapping[str, EntryPoint]:
        """The installed commands by name."""
        found = entry_points(group=COMMANDS) if self._given is None else self._given
        return {offer.name: offer for offer in found}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name every installed command, in the order of the help page."""
        arranged = [name for names in _SECTIONS.values() for name in names]
        return [name for name in arranged if name in self.offers] + sorted(set(self.offers) - set(arranged))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command; one that cannot be imported says why when it is run."""
        offer = self.offers.get(cmd_name)
        return None if offer is None else _load(offer)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in sections, each with the first line of its help."""
        names = self.list_commands(ctx)
        width = max(map(len, names), default=0)
        for title, members in {**_SECTIONS, _OTHERS: _unsectioned(names)}.items():
            rows = [(name.ljust(width), self._short_help(ctx, name)) for name in members if name in names]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _short_help(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return command.get_short_help_str(limit=90) if command else ""


def _unsectioned(names: Sequence[str]) -> tuple[str, ...]:
    arranged = {name for members in _SECTIONS.values() for name in members}
    return tuple(name for name in names if name not in arranged)


def _load(offer: EntryPoint) -> click.Command:
    try:
        command = offer.load()
    except Exception as error:  # noqa: BLE001  one broken command must not take the others along
        return _broken(offer, error)
    return command if isinstance(command, click.Command) else _broken(offer, TypeError(f"{offer.value} is no command"))


def _broken(offer: EntryPoint, error: Exception) -> click.Command:
    def refuse() -> None:
        raise click.ClickException(f"the command {offer.name} cannot be loaded: {error}")

    return click.Command(offer.name, callback=refuse, short_help=f"(cannot be loaded: {error})", add_help_option=False)


@click.command(
    cls=EntryPointGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Settings come from environment variables such as ANCHORAGE_HTTP__PORT=9000; see `anchorage check-config`.",
)
@data_dir_option
@url_option
@click.version_option(version("anchorage"), package_name="anchorage", prog_name="anchorage")
def root() -> None:
    """Answers anchored in your documents.

    \b
    A first session:
      anchorage up --detach                              start the service
      anchorage ingest notes/ -c notes --recursive       add documents
      anchorage ask -c notes "Who released Milvus?"      an answer with citations
      anchorage up --stop                                stop it again
    """  # noqa: D301  \b is click's mark for a block kept as it is


def run(arguments: Sequence[str], *, command: click.Command = root) -> int:
    """Run the command line; return its exit code. Errors are one line on standard error."""
    for stream in (sys.stdout, sys.stderr):
        _speak_utf8(stream)
    try:
        result = command.main(list(arguments), prog_name="anchorage", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except AnchorageError as error:
        click.echo(f"anchorage: {one_line(error.message)} ({code_of(error)})", err=True)
        return exit_code(error)
    return int(result) if isinstance(result, int) else ExitCode.OK


def one_line(message: str) -> str:
    """Return ``message`` without line breaks."""
    return " ".join(message.split())


def _speak_utf8(stream: TextIO) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace")


def _reader_gone() -> int:
    """Leave quietly when the reader of a pipe has gone; the interpreter flushes once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.FAILED
