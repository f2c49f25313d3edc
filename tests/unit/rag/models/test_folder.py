from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rag.core.errors import CapacityError, DataFolderError, StorageFullError
from rag.models.folder import exclusive, make_parent, new_folder, read_json, replace_json


def _fail_inside(target: Path, error: Exception) -> None:
    with new_folder(target) as folder:
        (folder / "file").write_text("x")
        raise error


def test_the_folder_appears_under_its_name_only_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "model"

    with new_folder(target) as folder:
        (folder / "file").write_text("x")
        seen_inside = target.exists()

    assert not seen_inside
    assert (target / "file").read_text() == "x"
    assert list(tmp_path.iterdir()) == [target]


def test_after_an_error_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="broken"):
        _fail_inside(tmp_path / "model", ValueError("broken"))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(StorageFullError, match="model was not written"):
        _fail_inside(tmp_path / "model", error)

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_attempt_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    leftover = tmp_path / ".model.new-dead"
    leftover.mkdir()
    (leftover / "half").write_text("x")

    with new_folder(tmp_path / "model"):
        pass

    assert not leftover.exists()


def test_files_that_only_their_writer_could_read_become_readable(tmp_path: Path) -> None:
    with new_folder(tmp_path / "model") as folder:
        (folder / "file").touch(mode=0o600)

    assert (tmp_path / "model" / "file").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o755


def test_a_held_lock_is_waited_for_until_the_deadline(tmp_path: Path) -> None:
    lock = tmp_path / "lock"

    with (
        exclusive(lock, deadline=1),
        pytest.raises(CapacityError, match="still preparing"),
        exclusive(lock, deadline=0),
    ):
        pytest.fail("two holders at once")


def test_the_lock_can_be_taken_again_after_an_error(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(ValueError, match="broken"), exclusive(lock, deadline=1):
        raise ValueError("broken")

    with exclusive(lock, deadline=0):
        taken = True

    assert taken


def test_a_models_folder_below_a_file_is_a_data_folder_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DataFolderError):
        make_parent(tmp_path / "file" / "models")


@pytest.mark.parametrize("content", ["", "{", "[1]", '"text"'])
def test_a_damaged_json_file_reads_as_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)

    assert read_json(tmp_path / "a.json") == {}


def test_replacing_json_leaves_no_second_file(tmp_path: Path) -> None:
    replace_json(tmp_path / "a.json", {"名": 1})
    replace_json(tmp_path / "a.json", {"名": 2})

    assert read_json(tmp_path / "a.json") == {"名": 2}
    assert len(list(tmp_path.iterdir())) == 1
