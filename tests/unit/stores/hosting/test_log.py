from __future__ import annotations

from pathlib import Path

from stores.hosting.log import BoundedLog


def test_two_files_of_the_limit_are_the_most_that_is_kept(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "engine.log", limit=1000)

    for number in range(500):
        log.append(f"line {number}\n".encode())
    log.append(b"x" * 5000)

    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 1000


def test_the_tail_is_the_last_lines_that_say_something(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "engine.log")

    log.append("一\n二\n\n三".encode())
    log.append("点\n  \n四\n".encode())

    assert log.tail() == "二 / 三点 / 四"


def test_another_run_begins_without_a_tail_and_keeps_the_file(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "engine.log")
    log.append(b"before\n")

    log.forget()

    assert log.tail() == ""
    assert log.path.read_text() == "before\n"
