"""Logs of the children."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.core.errors import DataFolderError
from rag.supervision.logs import rotate, tail


def test_the_log_of_the_last_run_is_put_aside(tmp_path: Path) -> None:
    log = rotate(tmp_path / "logs" / "api.log")
    log.write_text("first")

    rotate(log)

    assert not log.exists()
    assert (tmp_path / "logs" / "api.log.1").read_text() == "first"


def test_the_tail_is_the_last_lines_that_say_something(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\n".join(f"line {n}".encode() for n in range(100)) + b"\n\n\xff\n")

    assert tail(log, lines=2) == ["line 99", "\ufffd"]
    assert tail(tmp_path / "none") == []


def test_a_log_that_cannot_be_written_is_a_data_folder_error(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("")

    with pytest.raises(DataFolderError):
        rotate(tmp_path / "logs" / "api.log")
