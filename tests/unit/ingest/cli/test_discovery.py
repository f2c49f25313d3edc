"""Which files an ingest run finds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingest.cli.discovery import Fault, Found, LeftOut, discover


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name in ("a.txt", "b.md", ".hidden.txt", "中文/指南.txt", "中文/深/c.csv", ".git/config"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")
    return root


def sources(*roots: Path, recursive: bool = True) -> list[str]:
    return [item.source for item in discover(roots, recursive=recursive) if isinstance(item, Found)]


def faults(*roots: Path) -> list[tuple[str, str]]:
    return [(item.source, item.code) for item in discover(roots, recursive=True) if isinstance(item, Fault)]


def test_sources_are_relative_to_the_given_folder_and_hidden_ones_are_skipped(folder: Path) -> None:
    assert sources(folder) == ["a.txt", "b.md", "中文/指南.txt", "中文/深/c.csv"]


def test_without_recursive_only_the_top_level_is_taken_and_the_rest_is_named(folder: Path) -> None:
    items = list(discover([folder], recursive=False))

    assert [item.source for item in items if isinstance(item, Found)] == ["a.txt", "b.md"]
    assert [item.path.name for item in items if isinstance(item, LeftOut)] == ["中文"]


def test_a_given_file_is_known_by_its_name_even_when_it_is_hidden(folder: Path) -> None:
    assert sources(folder / "中文/指南.txt", folder / ".hidden.txt") == ["指南.txt", ".hidden.txt"]


def test_a_loop_of_links_is_entered_once(folder: Path) -> None:
    (folder / "中文" / "loop").symlink_to(folder, target_is_directory=True)

    assert sources(folder) == ["a.txt", "b.md", "中文/指南.txt", "中文/深/c.csv"]


def test_linked_files_are_followed_and_a_dead_link_is_a_fault(folder: Path) -> None:
    (folder / "link.txt").symlink_to(folder / "a.txt")
    (folder / "dead.txt").symlink_to(folder / "nowhere")

    assert "link.txt" in sources(folder)
    assert faults(folder) == [("dead.txt", "unreadable")]


def test_a_pipe_is_a_fault_and_is_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "pipe.txt")

    assert faults(folder) == [("pipe.txt", "unreadable")]


def test_two_files_with_one_source_are_a_fault_not_a_silent_replacement(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("other")

    assert sources(folder / "a.txt", tmp_path / "a.txt") == ["a.txt"]
    assert faults(folder / "a.txt", tmp_path / "a.txt") == [("a.txt", "duplicate_source")]


def test_a_path_given_twice_is_taken_once_as_a_source(folder: Path) -> None:
    assert set(sources(folder / "a.txt", folder / "a.txt")) == {"a.txt"}
    assert faults(folder / "a.txt", folder / "a.txt") == []


def test_a_name_that_is_no_utf_8_becomes_text(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.txt")).write_text("x")

    assert sources(tmp_path) == ["caf\\xe9.txt"]


def test_a_link_to_a_name_that_is_too_long_is_a_fault(folder: Path) -> None:
    (folder / "c.txt").symlink_to("n" * 300)

    assert faults(folder) == [("c.txt", "unreadable")]


@pytest.mark.parametrize("names", [("caf\u00e9.txt", "cafe\u0301.txt"), ("d.txt", "d\n.txt"), ("d.txt", "d.txt ")])
def test_files_that_the_service_would_keep_under_one_source_are_a_fault(folder: Path, names: tuple[str, str]) -> None:
    for name in names:
        (folder / name).write_text(ascii(name))

    assert [code for _, code in faults(folder)] == ["duplicate_source"]
