"""One process for an engine that admits one, through the deaths of the process and of its owners."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path

import psutil
import pytest
import uvloop

from rag.core.errors import ConfigurationError, DataFolderError, StorageFullError, StoreError
from stores.hosting import Hosted, attach_or_own

SERVER = """
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("引擎 listens", flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(str(os.getpid()).encode())
    connection.close()
"""

SHARER = """
import asyncio, signal, sys
from pathlib import Path
from tests.integration.stores.test_hosting import share

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with share(Path(sys.argv[1])) as hosted:
        print(hosted.socket, hosted.owned, flush=True)
        await stop.wait()

asyncio.run(main())
"""


def engine(socket: Path) -> Sequence[str]:
    return [sys.executable, "-c", SERVER, str(socket)]


async def ask(socket: Path) -> int:
    """The id of the process that answers. Raises ``OSError`` when none does."""
    reader, writer = await asyncio.open_unix_connection(socket)
    answer = await reader.read()
    writer.close()
    return int(answer or 0)


async def ping(socket: Path) -> None:
    if not await ask(socket):
        raise OSError("no answer")


def share(
    folder: Path, *, command: Callable[[Path], Sequence[str]] = engine, ready_timeout: float = 30.0
) -> AbstractAsyncContextManager[Hosted]:
    return attach_or_own(folder, name="engine", command=command, ping=ping, ready_timeout=ready_timeout)


@contextmanager
def sharing(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, bool]]:
    """Another process that shares the engine: itself, the socket it found, whether it owns."""
    process = subprocess.Popen([sys.executable, "-c", SHARER, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().rstrip()
        assert line, f"it ended with {process.wait(10)}"
        socket, _, owned = line.rpartition(" ")
        yield process, socket, owned == "True"
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


async def until_answered(socket: Path, *, by_another_than: int = 0, seconds: float = 30.0) -> int:
    """The process that answers, once it is another one."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = await ask(socket)
        except OSError:
            found = 0
        if found not in (0, by_another_than):
            return found
        assert time.monotonic() < deadline, "nothing answers"
        await asyncio.sleep(0.02)


async def until(condition: Callable[[], object], *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_whoever_comes_first_owns_and_the_others_attach_to_the_same_process(tmp_path: Path) -> None:
    async with share(tmp_path) as first, share(tmp_path) as second:
        with sharing(tmp_path) as (_, socket, owned):
            answered = [await ask(first.socket), await ask(second.socket), await ask(Path(socket))]

            assert [first.owned, second.owned, owned] == [True, False, False]
            assert answered == [first.pid] * 3
    assert gone(answered[0])
    assert not first.socket.exists()


async def test_two_processes_that_start_together_run_one_engine(tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as group:
        leave = asyncio.Event()
        found: list[tuple[bool, int]] = []

        async def take_part() -> None:
            async with share(tmp_path) as hosted:
                found.append((hosted.owned, await ask(hosted.socket)))
                if len(found) == 4:
                    leave.set()
                await leave.wait()

        for _ in range(4):
            group.create_task(take_part())

    assert sorted(owned for owned, _ in found) == [False, False, False, True]
    assert len({pid for _, pid in found}) == 1


async def test_a_killed_engine_is_started_again_at_the_same_address(tmp_path: Path) -> None:
    async with share(tmp_path) as hosted:
        first = hosted.pid

        os.kill(first, signal.SIGKILL)

        second = await until_answered(hosted.socket, by_another_than=first)
        assert second == hosted.pid
    assert gone(second)


async def test_a_restart_that_fails_unexpectedly_is_logged_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    starts = count(1)

    def second_start_fails(socket: Path) -> Sequence[str]:
        if next(starts) == 2:
            raise RuntimeError("of no kind that anyone expects")
        return engine(socket)

    async with share(tmp_path, command=second_start_fails) as hosted:
        first = hosted.pid
        os.kill(first, signal.SIGKILL)

        second = await until_answered(hosted.socket, by_another_than=first)

        assert second == hosted.pid
    assert "host_start_failed" in [getattr(record, "action", "") for record in caplog.records]


async def test_a_killed_owner_takes_its_engine_along_and_an_attached_one_takes_over(tmp_path: Path) -> None:
    with sharing(tmp_path) as (owner, socket, owned):
        async with share(tmp_path) as hosted:
            first = await ask(hosted.socket)
            assert owned
            assert not hosted.owned

            owner.kill()

            second = await until_answered(hosted.socket, by_another_than=first)
            assert hosted.owned
            assert str(hosted.socket) == socket
            assert gone(first)
    assert gone(second)


async def test_an_owner_that_leaves_hands_over_to_one_of_those_that_stay(tmp_path: Path) -> None:
    with ExitStack() as stack:
        owner, socket, _ = stack.enter_context(sharing(tmp_path))
        others = [stack.enter_context(sharing(tmp_path)) for _ in range(2)]
        first = await ask(Path(socket))

        owner.terminate()

        second = await until_answered(Path(socket), by_another_than=first)
        assert [each[1] for each in others] == [socket] * 2
        assert psutil.Process(second).ppid() in {each[0].pid for each in others}
    assert gone(second)


async def test_a_killed_lone_owner_leaves_no_engine_and_the_next_one_starts(tmp_path: Path) -> None:
    with sharing(tmp_path) as (owner, socket, _):
        first = await ask(Path(socket))

        owner.kill()

        await until(lambda: gone(first))
    async with share(tmp_path) as hosted:
        assert hosted.owned
        assert await ask(hosted.socket) == hosted.pid


async def test_in_a_long_chinese_path_the_socket_lies_in_a_private_folder_at_the_same_address(tmp_path: Path) -> None:
    folder = tmp_path / ("长" * 40) / "数据 文件夹"
    found: list[Hosted] = []
    for _ in range(2):
        with sharing(folder) as (_, socket, _):
            async with share(folder) as hosted:
                assert await ask(hosted.socket) == await ask(Path(socket))
                assert str(hosted.socket) == socket
                assert len(os.fsencode(hosted.socket)) <= 107
                assert stat.S_IMODE(hosted.socket.parent.stat().st_mode) == 0o700
        found.append(hosted)

    assert found[0].socket == found[1].socket
    assert not found[0].socket.is_relative_to(folder)
    assert not list(found[0].socket.parent.iterdir())
    found[0].socket.parent.rmdir()


async def test_a_short_chinese_path_is_no_address_for_every_client_either(tmp_path: Path) -> None:
    async with share(tmp_path / "库") as hosted:
        assert str(hosted.socket).isascii()
        assert await ask(hosted.socket) == hosted.pid
    hosted.socket.parent.rmdir()


@pytest.mark.parametrize("name", ["临时", "t" * 100])
async def test_a_folder_for_temporary_files_that_is_no_address_either_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))

    with pytest.raises(ConfigurationError, match="TMPDIR"):
        async with share(tmp_path / "库"):
            pass


def fails(code: int, words: str) -> Callable[[Path], Sequence[str]]:
    return lambda _: [sys.executable, "-c", f"import sys; print({words!r}, file=sys.stderr); sys.exit({code})"]


@pytest.mark.parametrize(
    ("code", "words", "kind"),
    [
        (1, "数据坏了", StoreError),
        (2, "no such option", ConfigurationError),
        (1, "OSError: No space left on device", StorageFullError),
    ],
)
async def test_an_engine_that_cannot_start_is_one_error_with_the_end_of_its_log(
    tmp_path: Path, code: int, words: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=f"exit code {code}.*{words}") as caught:
        async with share(tmp_path, command=fails(code, words)):
            pass

    assert type(caught.value) is kind
    assert words in (tmp_path / "engine.log").read_text()


async def test_a_program_that_does_not_exist_is_a_configuration_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="/no/such/engine"):
        async with share(tmp_path, command=lambda _: ["/no/such/engine"]):
            pass


async def test_an_engine_that_never_answers_is_ended_and_named(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    silent = f"import os, time; open({str(pids)!r}, 'w').write(str(os.getpid())); time.sleep(60)"

    with pytest.raises(StoreError, match=r"did not answer within 0\.5 s"):
        async with share(tmp_path, command=lambda _: [sys.executable, "-c", silent], ready_timeout=0.5):
            pass

    assert not pids.exists() or gone(int(pids.read_text()))


async def test_an_engine_of_another_process_that_does_not_answer_is_named(tmp_path: Path) -> None:
    async with share(tmp_path) as hosted:
        os.kill(hosted.pid, signal.SIGSTOP)

        with pytest.raises(StoreError, match="owned by another process"):
            async with attach_or_own(tmp_path, name="engine", command=engine, ping=_refuse, ready_timeout=0.5):
                pass

        os.kill(hosted.pid, signal.SIGCONT)


async def _refuse(socket: Path) -> None:
    raise OSError("refused")


async def test_a_folder_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    for folder in (tmp_path / "file", Path("/proc/anchorage")):
        with pytest.raises(DataFolderError):
            async with share(folder):
                pass


async def test_cancelled_while_the_engine_starts_it_leaves_nothing(tmp_path: Path) -> None:
    started = tmp_path / "started"
    slow = f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(60)"

    async def open_it() -> None:
        async with share(tmp_path, command=lambda _: [sys.executable, "-c", slow]):
            pass

    opening = asyncio.create_task(open_it())
    await until(lambda: started.exists() and started.read_text())
    opening.cancel()
    await asyncio.wait({opening})

    assert opening.cancelled()
    assert gone(int(started.read_text()))
    async with share(tmp_path) as hosted:
        assert hosted.owned


async def test_an_engine_that_ignores_its_end_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.hosting.process._GRACE_SECONDS", 0.3)
    children = tmp_path / "children"
    deaf = (
        "import os, signal, socket, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(children)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))\n"
    ) + SERVER.partition("sys.exit(0))")[2]

    async with share(tmp_path, command=lambda socket: [sys.executable, "-c", deaf, str(socket)]) as hosted:
        pid = hosted.pid

    assert gone(pid)
    await until(lambda: gone(int(children.read_text())))


async def test_what_the_engine_says_is_kept_within_bounds(tmp_path: Path) -> None:
    async with share(tmp_path) as hosted:
        await ask(hosted.socket)
        log = tmp_path / "engine.log"
        await until(lambda: log.exists() and "引擎 listens" in log.read_text())


def test_it_works_on_the_event_loop_of_the_service(tmp_path: Path) -> None:
    async def own_and_lose() -> int:
        async with share(tmp_path) as hosted:
            os.kill(hosted.pid, signal.SIGKILL)
            return await until_answered(hosted.socket, by_another_than=hosted.pid)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert gone(runner.run(own_and_lose()))
