"""One owner of a data folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rag.core.errors import DataFolderError, DataFolderLockedError
from rag.supervision.lock import Owner, hold_folder, is_running, lock_path, read_owner


def test_a_second_owner_is_told_who_the_first_one_is(tmp_path: Path) -> None:
    with hold_folder(tmp_path) as lock:
        lock.record(Owner(pid=os.getpid(), url="http://127.0.0.1:8080"))

        expected = rf"process {os.getpid()}, http://127\.0\.0\.1:8080"
        with pytest.raises(DataFolderLockedError, match=expected), hold_folder(tmp_path):
            pass


def test_the_folder_is_free_again_afterwards(tmp_path: Path) -> None:
    with hold_folder(tmp_path) as lock:
        lock.record(Owner(pid=os.getpid(), url=""))
        assert read_owner(tmp_path) == Owner(pid=os.getpid(), url="")

    assert read_owner(tmp_path) is None
    with hold_folder(tmp_path):
        pass


def test_a_folder_that_nobody_ever_owned_has_no_owner(tmp_path: Path) -> None:
    assert read_owner(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()


def test_a_shorter_record_replaces_a_longer_one(tmp_path: Path) -> None:
    with hold_folder(tmp_path) as lock:
        lock.record(Owner(pid=os.getpid(), url="http://" + "a" * 100))
        lock.record(Owner(pid=os.getpid(), url="http://b"))

        assert read_owner(tmp_path) == Owner(pid=os.getpid(), url="http://b")


def test_the_record_says_why_generation_is_not_to_be_had(tmp_path: Path) -> None:
    with hold_folder(tmp_path) as lock:
        lock.record(Owner(pid=os.getpid(), url="http://b", no_generation="vllm keeps ending"))
        told = read_owner(tmp_path)
        lock.record(Owner(pid=os.getpid(), url="http://b"))

        assert told is not None
        assert told.no_generation == "vllm keeps ending"
        assert read_owner(tmp_path) == Owner(pid=os.getpid(), url="http://b")


def test_a_file_in_place_of_the_folder_is_a_data_folder_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(DataFolderError, match="cannot be written"), hold_folder(tmp_path / "file"):
        pass


def test_the_lock_outlives_its_owner_while_a_guardian_holds_it(tmp_path: Path) -> None:
    with hold_folder(tmp_path) as lock:
        lock.record(Owner(pid=0, url="http://killed"))
        guardian = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=(lock.descriptor,)
        )

    try:
        with pytest.raises(DataFolderLockedError), hold_folder(tmp_path, patience=0.0):
            pass
        assert guardian.stdin is not None
        guardian.stdin.close()
        with hold_folder(tmp_path, patience=20.0):
            pass
    finally:
        guardian.wait()
    assert lock_path(tmp_path).exists()


def test_a_killed_process_that_nobody_has_collected_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    before = is_running(process.pid)

    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    assert before
    assert not Owner(pid=process.pid, url="").alive
    process.wait()
