from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from rag.core.errors import DataFolderError, StorageFullError
from rag.ownership.folders import folder_errors, hold, is_plain, is_short, noted_folder, private_folder

ME = (os.geteuid(),)


def test_a_held_file_is_refused_until_it_is_let_go(tmp_path: Path) -> None:
    first = hold(tmp_path / "lock")
    assert first is not None
    refused = hold(tmp_path / "lock")

    first.close()
    second = hold(tmp_path / "lock")

    assert refused is None
    assert second is not None
    second.close()


def test_a_socket_path_is_measured_in_bytes() -> None:
    assert is_short(Path("/" + "a" * 106))
    assert not is_short(Path("/" + "a" * 107))
    assert not is_short(Path("/" + "长" * 36))


@pytest.mark.parametrize("path", ["/data/库/x", "/with space/x", "/a%20b", "/a:b"])
def test_a_path_that_a_url_spells_otherwise_is_not_plain(path: str) -> None:
    assert not is_plain(Path(path))
    assert is_plain(Path("/var/lib/anchorage-1.0/x_y.sock"))


def test_a_private_folder_keeps_its_name_also_when_it_was_removed(tmp_path: Path) -> None:
    note = tmp_path / "note"

    first = private_folder(note, prefix="anchorage-test-", owners=ME)
    first.rmdir()
    second = private_folder(note, prefix="anchorage-test-", owners=ME)

    assert first == second
    assert stat.S_IMODE(second.stat().st_mode) == 0o700
    second.rmdir()


def test_what_lies_under_the_noted_name_and_is_not_ours_is_not_used(tmp_path: Path) -> None:
    note, link = tmp_path / "note", tmp_path / "link"
    link.symlink_to(tmp_path)
    note.write_text(str(link))

    made = private_folder(note, prefix="anchorage-test-", owners=ME)

    assert made != link
    assert noted_folder(note, owners=ME) == made
    assert noted_folder(note, owners=(os.geteuid() + 1,)) is None
    made.rmdir()


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, StorageFullError), (errno.EACCES, DataFolderError)])
def test_what_the_system_says_of_a_folder_is_told_apart(number: int, kind: type[Exception]) -> None:
    with pytest.raises(kind), folder_errors(Path("/data")):
        raise OSError(number, os.strerror(number))
