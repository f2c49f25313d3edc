"""What doctor and rebuild say, and what they end with."""

from __future__ import annotations

import io
from collections import Counter

import click
import pytest

from rag.cli.doctor import describe, exit_code_of
from rag.cli.exits import ExitCode
from rag.cli.rebuild import Outcome as RebuildOutcome
from rag.cli.rebuild import rebuild
from rag.cli.root import run
from rag.maintenance import Outcome, RebuildProgress, Report
from rag.maintenance.findings import DESCRIPTIONS, Fault


async def nothing() -> Outcome:
    return Outcome.LEFT


def report(*outcomes: Outcome | None, code: str = "records_missing") -> Report:
    found = Report(most=2, looked=Counter(documents=5))
    for number, outcome in enumerate(outcomes):
        found.add(Fault(code=code, where="笔记", example=f"a{number}.txt: 0 of 2", mend=nothing), outcome)
    return found


def test_a_finding_names_its_code_its_count_examples_and_what_repair_does() -> None:
    text = describe(report(None, None, None), repair=False)

    assert text.splitlines() == [
        "records_missing: 3 in 笔记",
        "  documents have fewer records in the store than chunks",
        "    a0.txt: 0 of 2",
        "    a1.txt: 0 of 2",
        "    and 1 more",
        f"  --repair {DESCRIPTIONS['records_missing'].repair}",
        "looked at 5 documents: 3 things are wrong; `anchorage doctor --repair` mends what can be mended",
    ]


def test_a_source_cannot_write_to_the_terminal() -> None:
    found = Report()
    found.add(Fault(code="text_missing", where="n", example="\x1b[2J.txt", mend=nothing), None)

    assert "\x1b" not in describe(found, repair=False)


@pytest.mark.parametrize(
    ("outcomes", "code", "said"),
    [
        ((), ExitCode.OK, "nothing is wrong"),
        ((None,), ExitCode.PARTLY_FAILED, "1 thing is wrong"),
        ((Outcome.MENDED, Outcome.QUEUED), ExitCode.OK, "everything is mended, or will be once it is ingested"),
        ((Outcome.MENDED, Outcome.LEFT), ExitCode.PARTLY_FAILED, "1 thing is left"),
    ],
)
def test_the_exit_code_says_whether_something_is_left(
    outcomes: tuple[Outcome | None, ...], code: ExitCode, said: str
) -> None:
    found = report(*outcomes)

    assert exit_code_of(found) is code
    assert said in describe(found, repair=None not in outcomes)


@pytest.mark.parametrize(
    ("left", "failed", "waited", "code"),
    [
        (0, 0, True, ExitCode.OK),
        (5, 0, False, ExitCode.OK),
        (5, 0, True, ExitCode.PARTLY_FAILED),
        (0, 1, True, ExitCode.PARTLY_FAILED),
    ],
)
def test_a_rebuild_that_waited_in_vain_ends_with_3(*, left: int, failed: int, waited: bool, code: ExitCode) -> None:
    now = RebuildProgress(left=left, failed=failed, workers=0)

    outcome = RebuildOutcome(collections=1, created=0, queued=5, now=now, waited=waited)

    assert outcome.exit_code is code
    assert ("anchorage up" in outcome.described()) is (left > 0)


@pytest.mark.parametrize("arguments", [[], ["notes", "--all"]])
def test_a_rebuild_is_of_one_collection_or_of_all(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rebuild", *arguments]) == ExitCode.USAGE
    assert "--all" in capsys.readouterr().err


def test_a_rebuild_that_nobody_agreed_to_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())

    with pytest.raises(click.UsageError, match="--yes"):
        rebuild.main(["notes"], standalone_mode=False)
