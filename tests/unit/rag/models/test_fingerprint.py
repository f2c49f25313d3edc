from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from rag.models.fingerprint import file_hashes


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.bin"
    path.write_bytes(b"weights")
    return path


def test_the_hash_is_the_sha_256_of_the_bytes(source: Path, tmp_path: Path) -> None:
    hashes = file_hashes([source], memory=tmp_path / "m.json")

    assert hashes == {str(source): hashlib.sha256(b"weights").hexdigest()}


def test_an_unchanged_file_is_not_read_again(source: Path, tmp_path: Path) -> None:
    before = file_hashes([source], memory=tmp_path / "m.json")
    stat = source.stat()
    source.write_bytes(b"WEIGHTS")
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    again = file_hashes([source], memory=tmp_path / "m.json")

    assert again == before


def test_a_changed_file_gets_a_new_hash(source: Path, tmp_path: Path) -> None:
    before = file_hashes([source], memory=tmp_path / "m.json")
    source.write_bytes(b"other weights")

    assert file_hashes([source], memory=tmp_path / "m.json") != before


def test_a_damaged_memory_is_made_again(source: Path, tmp_path: Path) -> None:
    memory = tmp_path / "m.json"
    before = file_hashes([source], memory=memory)
    memory.write_text("{")

    assert file_hashes([source], memory=memory) == before
    assert file_hashes([source], memory=memory) == before


def test_nothing_is_written_when_everything_is_remembered(source: Path, tmp_path: Path) -> None:
    memory = tmp_path / "m.json"
    file_hashes([source], memory=memory)
    written = memory.stat().st_ino

    file_hashes([source], memory=memory)

    assert memory.stat().st_ino == written
