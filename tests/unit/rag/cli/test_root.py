"""The root command: lazy mounting, help, and how errors become exit codes."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import click
import pytest

from rag.cli.exits import ExitCode, RefusedError, outcome
from rag.cli.root import COMMANDS, EntryPointGroup, run
from rag.core.errors import AnchorageError, ConfigurationError, DataFolderLockedError

HEAVY = ("fastapi", "torch", "psycopg", "numpy", "httpx", "pydantic", "uvicorn", "transformers")


def offer(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=COMMANDS)


def raising(error: BaseException) -> click.Command:
    def fail() -> None:
        raise error

    return click.Command("fail", callback=fail)


def test_help_of_everything_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom rag.cli.root import run\n"
        "assert run(['--help']) == 0\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stderr.strip() == "[]"
    assert "Add files and folders to a collection." in done.stdout


def test_only_the_command_that_runs_is_imported() -> None:
    group = EntryPointGroup(
        offers=[offer("good", "rag.cli.version:version"), offer("bad", "no.such.module:command")], name="root"
    )

    assert run(["good", "--json"], command=group) == ExitCode.OK


def test_a_command_that_cannot_be_imported_is_still_listed_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    group = EntryPointGroup(offers=[offer("bad", "no.such.module:command")], name="root")

    listed, ran = run(["--help"], command=group), run(["bad"], command=group)

    assert (listed, ran) == (0, 1)
    output = capsys.readouterr()
    assert "cannot be loaded" in output.out
    assert "No module named 'no'" in output.err


def test_a_command_of_another_distribution_is_mounted_by_its_entry_point(capsys: pytest.CaptureFixture[str]) -> None:
    group = EntryPointGroup(offers=[offer("extra", "rag.cli.version:version")], name="root")

    run(["--help"], command=group)

    assert "More:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigurationError("bad port"), 2, "anchorage: bad port (configuration)"),
        (DataFolderLockedError("in use"), 2, "anchorage: in use (data_folder_locked)"),
        (AnchorageError("broke"), 1, "anchorage: broke (error)"),
        (AnchorageError("two\nlines"), 1, "anchorage: two lines (error)"),
        (RefusedError("no", refusal="conflict", http_status=409), 1, "anchorage: no (conflict)"),
    ],
)
def test_an_error_is_one_line_with_its_code_and_no_traceback(
    error: AnchorageError, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([], command=raising(error)) == code

    assert capsys.readouterr() == ("", line + "\n")


def test_an_interrupt_ends_with_130() -> None:
    assert run([], command=raising(KeyboardInterrupt())) == 130


def test_an_unknown_option_is_a_usage_error() -> None:
    assert run(["search", "--nonsense"]) == 2


def test_an_unknown_command_is_a_usage_error() -> None:
    assert run(["nonsense"]) == 2


def test_what_a_command_returns_is_the_exit_code() -> None:
    assert run([], command=click.Command("partly", callback=lambda: ExitCode.PARTLY_FAILED)) == 3


@pytest.mark.parametrize(("succeeded", "failed", "code"), [(0, 0, 0), (3, 0, 0), (0, 2, 1), (1, 1, 3)])
def test_a_batch_ends_by_what_failed(succeeded: int, failed: int, code: int) -> None:
    assert outcome(succeeded=succeeded, failed=failed) == code


def test_a_reader_that_went_away_is_no_error() -> None:
    program = f"{sys.executable} -c \"import sys; from rag.cli import main; main(['--help'])\" | true"

    done = subprocess.run(["/bin/sh", "-c", program], capture_output=True, text=True, check=False)

    assert "Traceback" not in done.stderr


def test_output_is_utf_8_in_every_locale() -> None:
    program = (
        "from rag.cli import main\nimport click\nfrom rag.cli import root\n"
        "raise SystemExit(root.run([], command=click.Command('x', callback=lambda: click.echo('\\u5411\\u91cf'))))"
    )

    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", program],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
    )

    assert done.stdout.decode("utf-8") == "向量\n"
