"""``anchorage doctor``: what differs between catalog, files and store, and mending it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rag.cli.exits import ExitCode
from rag.cli.options import chosen_settings, data_dir_option, json_option
from rag.cli.tables import counted

if TYPE_CHECKING:
    from rag.maintenance import Finding, Report
    from rag.settings import Settings


@click.command(short_help="Compare catalog, files and store; mend what differs.")
@click.option("-c", "--collection", metavar="NAME", help="Look at this collection only.")
@click.option("--repair", is_flag=True, help="Mend what is found.")
@click.option(
    "--examples", type=click.IntRange(0, 1000), default=3, show_default=True, help="Examples of each finding."
)
@json_option
@data_dir_option
def doctor(*, collection: str | None, repair: bool, examples: int, as_json: bool) -> int:
    """Compare the catalog with the files and the vector store, and say in plain words what differs.

    Works on the data folder, beside a running service or without one; what a service is just doing is no finding.
    Ends with 0 when nothing is wrong or all of it is mended, 3 when something is left, 1 when it could not look.
    What --repair queues to be ingested again is mended once a worker has done it.

    \b
    Examples:
      anchorage doctor
      anchorage doctor -c notes --repair
    """  # noqa: D301
    import asyncio

    from rag.cli.output import print_json

    report = asyncio.run(_examine(chosen_settings(), collection, repair=repair, examples=examples))
    if as_json:
        print_json({"repair": repair, **report.as_json()})
    else:
        click.echo(describe(report, repair=repair))
    return exit_code_of(report)


async def _examine(settings: Settings, collection: str | None, *, repair: bool, examples: int) -> Report:
    from rag.cli.output import Progress
    from rag.maintenance import Doctor
    from rag.wiring import open_parts

    progress = Progress()
    try:
        async with open_parts(settings) as parts:
            return await Doctor(parts, repair=repair, examples=examples, progress=progress.show).examine(collection)
    finally:
        progress.clear()


def exit_code_of(report: Report) -> ExitCode:
    """Return 3 when something is left, else 0."""
    return ExitCode.PARTLY_FAILED if report.open else ExitCode.OK


def describe(report: Report, *, repair: bool) -> str:
    """Say in plain words what was found, and what became of it."""
    looked = ", ".join(counted(count, what) for what, count in report.looked.items()) or "nothing"
    findings = [_finding(finding, repair=repair) for finding in report.findings]
    return "\n".join([*findings, f"looked at {looked}: {_conclusion(report, repair=repair)}"])


def _conclusion(report: Report, *, repair: bool) -> str:
    if not report.findings:
        return "nothing is wrong"
    left = sum(finding.left for finding in report.findings)
    things = f"{counted(left, 'things')} {'is' if left == 1 else 'are'}"
    if not repair:
        return f"{things} wrong; `anchorage doctor --repair` mends what can be mended"
    return f"{things} left" if left else "everything is mended, or will be once it is ingested"


def _finding(finding: Finding, *, repair: bool) -> str:
    from rag.cli.tables import printable
    from rag.maintenance.findings import DESCRIPTIONS

    description = DESCRIPTIONS[finding.code]
    lines = [f"{finding.code}: {finding.count} in {printable(finding.where)}", f"  {description.means}"]
    lines += [f"    {printable(each)}" for each in finding.examples]
    if finding.count > len(finding.examples) > 0 and finding.code not in _COUNTED_WITHIN:
        lines.append(f"    and {finding.count - len(finding.examples)} more")
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in finding.outcomes.items())
    lines.append(f"  --repair {description.repair}")
    return "\n".join([*lines, f"    {outcomes}"] if repair else lines)


_COUNTED_WITHIN = frozenset({"records_orphaned", "records_foreign", "statistics_differ"})
"""Findings of which an example stands for several."""
