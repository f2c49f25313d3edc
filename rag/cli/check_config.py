"""``anchorage check-config``: the configuration as it takes effect, and every fault of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rag.cli.options import chosen_settings, data_dir_option, json_option

if TYPE_CHECKING:
    from rag.cli.checks import Check


@click.command("check-config", short_help="Show the configuration, and name every fault of it.")
@json_option
@data_dir_option
def check_config(*, as_json: bool) -> int:
    """Show the configuration as it takes effect, secrets masked, and check what it needs on this machine.

    Ends with 2 when something must be changed before the service can run.

    \b
    Examples:
      anchorage check-config
      ANCHORAGE_STORE__KIND=pgvector anchorage check-config --json
    """  # noqa: D301
    from rag.cli.checks import masked, run_checks
    from rag.cli.exits import ExitCode
    from rag.cli.output import print_json

    settings = chosen_settings()
    shown, checks = masked(settings.model_dump(mode="json")), run_checks(settings)
    faults = [check for check in checks if check.fault]
    if as_json:
        print_json({"settings": shown, "checks": [_as_json(check) for check in checks], "ok": not faults})
    else:
        _print_groups(shown)
        for check in checks:
            click.echo(f"{'FAULT' if check.fault else 'ok':5}  {check.name}: {check.message}")
    return ExitCode.USAGE if faults else ExitCode.OK


def _as_json(check: Check) -> dict[str, object]:
    return {"name": check.name, "ok": not check.fault, "message": check.message}


def _print_groups(shown: dict[str, Any]) -> None:
    groups = {name: values for name, values in shown.items() if isinstance(values, dict)}
    general = {name: value for name, value in shown.items() if name not in groups}
    _print_group("general", "ANCHORAGE_", general)
    for name, values in groups.items():
        _print_group(name, f"ANCHORAGE_{name.upper()}__", values)


def _print_group(title: str, prefix: str, values: dict[str, Any]) -> None:
    click.echo(f"[{title}]")
    for name, value in values.items():
        click.echo(f"  {prefix}{name.upper()} = {'' if value is None else value}")
    click.echo("")
