"""Children that are kept running, with small programs in their place."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from rag.core.errors import ConfigurationError, UnknownStoreError
from rag.ownership.backoff import Backoff
from rag.ownership.processes import describe_exit
from rag.supervision.child import Child, Plan
from rag.supervision.guard import Guard
from rag.supervision.process import Launch, spawn

SLEEPS = "import time\nprint('起来了', flush=True)\ntime.sleep(60)"
DIES = "print('cannot go on')\nraise SystemExit(7)"
DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(60)"
PARENT = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print(child.pid, flush=True)\ntime.sleep(60)"
)


class Stage:
    """A child on stage, with what it reported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "child.log"
        self.reports = list[str]()
        self.troubles = list[str]()
        self.heard = asyncio.Event()
        self.hurry = asyncio.Event()

    def report(self, name: str, message: str) -> None:
        self.reports.append(message)
        self.heard.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def child(
        self,
        program: str | Callable[[], Awaitable[Launch]],
        *,
        grace: float = 10.0,
        first: float = 0.01,
        refused: Callable[[ConfigurationError], None] | None = None,
        python: str = sys.executable,
    ) -> AsyncIterator[Child]:
        async def launch() -> Launch:
            return Launch(arguments=(python, "-c", str(program)), environment={"PYTHONIOENCODING": "utf-8"})

        async def probe() -> bool:
            return self.log.exists() and bool(self.log.read_bytes())

        plan = Plan(
            name="child", launch=launch if isinstance(program, str) else program, probe=probe, log=self.log,
            where="here", grace=grace, resigned="we go on without", refused=refused, troubled=self.troubles.append,
        )  # fmt: skip
        child = Child(plan, guard=Guard(lock=-1), report=self.report, backoff=Backoff(first=first, longest=first))
        running = asyncio.create_task(child.run())
        try:
            yield child
        finally:
            await child.stop(hurry=self.hurry)
            await running


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_a_child_is_announced_when_it_is_ready_and_gone_after_its_stop(stage: Stage) -> None:
    async with stage.child(SLEEPS) as child:
        await stage.until(child.ready.is_set)
        pid = child.pid

    assert pid
    assert not psutil.pid_exists(pid)
    assert stage.reports[0].startswith("ready in ")
    assert stage.reports[0].endswith(" s: here")
    assert stage.log.read_text(encoding="utf-8") == "起来了\n"


async def test_a_killed_child_is_started_again(stage: Stage) -> None:
    async with stage.child(SLEEPS) as child:
        await stage.until(child.ready.is_set)
        first = child.pid
        assert first
        os.kill(first, 9)
        await stage.until(lambda: child.pid not in {None, first} and child.ready.is_set())

    assert any("ended (killed by SIGKILL); starting again in 0.0 s" in report for report in stage.reports)


async def test_the_end_of_the_log_is_shown_when_it_keeps_dying(stage: Stage) -> None:
    async with stage.child(DIES):
        await stage.until(lambda: any("keeps ending" in report for report in stage.reports))

    assert "| cannot go on" in stage.reports
    assert f"child keeps ending; see {stage.log}" in stage.troubles
    assert any("ended (exit code 7)" in report for report in stage.reports)


async def test_a_child_that_ignores_its_stop_is_killed_after_its_grace(stage: Stage) -> None:
    async with stage.child(DEAF, grace=0.05) as child:
        await stage.until(child.ready.is_set)
        pid = child.pid

    assert pid
    assert not psutil.pid_exists(pid)


async def test_hurrying_does_not_wait_for_the_grace(stage: Stage) -> None:
    async with asyncio.timeout(20), stage.child(DEAF, grace=3600) as child:
        await stage.until(child.ready.is_set)
        stage.hurry.set()


async def test_what_a_child_started_does_not_outlive_it(stage: Stage) -> None:
    async with stage.child(PARENT) as child:
        await stage.until(child.ready.is_set)
        grandchild = int(stage.log.read_text())
        assert psutil.pid_exists(grandchild)

    await stage.until(lambda: not alive(grandchild))


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_child_that_cannot_be_configured_resigns_once_with_the_reason(stage: Stage) -> None:
    async def launch() -> Launch:
        raise ConfigurationError("no weights")

    async with stage.child(launch):
        await stage.until(lambda: bool(stage.reports))

    assert stage.reports == ["cannot be started: no weights; we go on without"]
    assert stage.troubles == ["child cannot be started: no weights"]


async def test_a_program_that_is_not_there_is_tried_again(stage: Stage) -> None:
    async with stage.child(SLEEPS, python="/no/such/program"):
        await stage.until(lambda: len(stage.troubles) > 1)

    assert stage.reports[0].startswith("could not be started: No such file or directory; starting again in ")


async def test_a_child_that_is_ready_is_in_no_trouble(stage: Stage) -> None:
    async with stage.child(SLEEPS) as child:
        await stage.until(child.ready.is_set)

    assert stage.troubles == [""]


async def test_variables_that_are_only_defaults_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHORAGE_TEST_GIVEN", "by the user")
    program = "import os; print(os.environ['ANCHORAGE_TEST_GIVEN'], os.environ['ANCHORAGE_TEST_OTHER'])"
    defaults = {"ANCHORAGE_TEST_GIVEN": "by us", "ANCHORAGE_TEST_OTHER": "by us"}

    process = await spawn(Launch(arguments=(sys.executable, "-c", program), defaults=defaults), log=tmp_path / "log")

    assert await process.wait() == 0
    assert (tmp_path / "log").read_text() == "by the user by us\n"


async def test_a_stop_while_the_command_is_being_made_ends_that(stage: Stage) -> None:
    cancelled = asyncio.Event()

    async def launch() -> Launch:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    async with stage.child(launch):
        await asyncio.sleep(0)

    assert cancelled.is_set()


async def test_a_stop_during_the_delay_does_not_wait_it_out(stage: Stage) -> None:
    async with asyncio.timeout(20), stage.child(DIES, first=3600.0):
        await stage.until(lambda: bool(stage.reports))


def test_the_end_of_a_process_is_named() -> None:
    assert describe_exit(3) == "exit code 3"
    assert describe_exit(-9) == "killed by SIGKILL"
    assert describe_exit(-250) == "killed by signal 250"


async def test_a_child_that_cannot_use_the_configuration_is_not_started_again(stage: Stage) -> None:
    refusals = list[ConfigurationError]()
    program = "print('anchorage: no such store (unknown_store)')\nraise SystemExit(2)"

    async with stage.child(program, refused=refusals.append):
        await stage.until(lambda: bool(refusals))

    assert [(type(refusal), refusal.message) for refusal in refusals] == [(UnknownStoreError, "no such store")]
    assert stage.reports == []
