"""Blob files: whole or absent, per tenant, never written twice."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rag.blobs import BlobCondition, FileBlobs, StoredBlob, folder_of, open_blobs
from rag.core.catalog import BlobRef
from rag.core.errors import BlobError, DataFolderError, StorageFullError
from rag.core.ports import Blobs
from rag.core.types import Scope

SCOPE = Scope(tenant="acme", groups=None)
OTHER = Scope(tenant="other", groups=None)


@pytest.fixture
async def blobs(tmp_path: Path) -> AsyncIterator[FileBlobs]:
    async with open_blobs(tmp_path / "blobs") as opened:
        yield opened


def files(folder: Path) -> list[Path]:
    return sorted(each for each in folder.rglob("*") if each.is_file())


@pytest.mark.parametrize("content", [b"", b"text", "锚".encode() * 1000, bytes(range(256)) * 5000])
async def test_what_was_put_comes_back(blobs: Blobs, content: Any) -> None:
    ref = await blobs.put(SCOPE, content)

    assert ref == BlobRef(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    assert await blobs.get(SCOPE, ref) == content


async def test_a_blob_lies_under_the_hash_of_its_tenant_and_its_first_digits(blobs: FileBlobs, tmp_path: Path) -> None:
    ref = await blobs.put(SCOPE, b"text")

    [path] = files(tmp_path)
    assert path.relative_to(tmp_path / "blobs").parts[1:] == (ref.sha256[:2], ref.sha256)
    assert "acme" not in str(path)


async def test_another_tenant_does_not_see_it(blobs: FileBlobs) -> None:
    ref = await blobs.put(SCOPE, b"text")

    with pytest.raises(BlobError):
        await blobs.get(OTHER, ref)
    await blobs.delete(OTHER, ref)

    assert await blobs.get(SCOPE, ref) == b"text"


async def test_existing_bytes_are_not_written_again(blobs: FileBlobs, tmp_path: Path) -> None:
    await blobs.put(SCOPE, b"text")
    [path] = files(tmp_path)
    inode = path.stat().st_ino

    await blobs.put(SCOPE, b"text")

    assert [each.stat().st_ino for each in files(tmp_path)] == [inode]


async def test_concurrent_puts_of_the_same_bytes_leave_one_file(blobs: FileBlobs, tmp_path: Path) -> None:
    refs = await asyncio.gather(*(blobs.put(SCOPE, b"text") for _ in range(20)))

    assert len(set(refs)) == 1
    assert len(files(tmp_path)) == 1


async def test_a_truncated_file_is_written_anew(blobs: FileBlobs, tmp_path: Path) -> None:
    ref = await blobs.put(SCOPE, b"text")
    files(tmp_path)[0].write_bytes(b"te")

    await blobs.put(SCOPE, b"text")

    assert await blobs.get(SCOPE, ref) == b"text"


async def test_damage_is_noticed(blobs: FileBlobs, tmp_path: Path) -> None:
    ref = await blobs.put(SCOPE, b"text")
    files(tmp_path)[0].write_bytes(b"text!")

    with pytest.raises(BlobError, match="damaged"):
        await blobs.get(SCOPE, ref)


async def test_delete_removes_and_a_missing_one_is_a_no_op(blobs: FileBlobs, tmp_path: Path) -> None:
    ref = await blobs.put(SCOPE, b"text")

    await blobs.delete(SCOPE, ref)
    await blobs.delete(SCOPE, ref)

    assert files(tmp_path) == []
    with pytest.raises(BlobError):
        await blobs.get(SCOPE, ref)


@pytest.mark.parametrize("sha256", ["../../etc/passwd", "", "A" * 64, "a" * 63])
async def test_a_name_that_is_no_hash_never_becomes_a_path(blobs: FileBlobs, sha256: str) -> None:
    with pytest.raises(BlobError):
        await blobs.get(SCOPE, BlobRef(sha256=sha256, size=1))


@pytest.mark.parametrize("failing", ["fsync", "replace"])
async def test_a_full_disk_is_one_clear_error_and_leaves_nothing(
    blobs: FileBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync", full) if failing == "fsync" else (Path, "replace", full)))
        with pytest.raises(StorageFullError) as raised:
            await blobs.put(SCOPE, b"text")

    assert (raised.value.code, raised.value.status) == ("storage_full", 507)
    assert files(tmp_path) == []
    await blobs.put(SCOPE, b"text")


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="needs /dev/full")
async def test_a_device_that_is_really_full_gives_the_same_error(
    blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.blobs._write", lambda _path, content: Path("/dev/full").write_bytes(content))

    with pytest.raises(StorageFullError):
        await blobs.put(SCOPE, b"text")


async def test_old_leftovers_of_a_crash_are_removed_at_the_next_start_and_young_ones_stay(
    blobs: FileBlobs, tmp_path: Path
) -> None:
    await blobs.put(SCOPE, b"text")
    folder = files(tmp_path)[0].parent
    old, young = folder / ".put-old", folder / ".put-young"
    for each in (old, young):
        each.write_bytes(b"half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))

    async with open_blobs(tmp_path / "blobs"):
        pass

    assert (old.exists(), young.exists()) == (False, True)


async def test_only_what_was_not_put_lately_is_discarded(blobs: FileBlobs, tmp_path: Path) -> None:
    ref = await blobs.put(SCOPE, b"text")

    young = await blobs.discard(SCOPE, ref, older_than=3600)
    os.utime(files(tmp_path)[0], (0, 0))
    await blobs.put(SCOPE, b"text")
    renewed = await blobs.discard(SCOPE, ref, older_than=3600)
    os.utime(files(tmp_path)[0], (0, 0))
    old = await blobs.discard(SCOPE, ref, older_than=3600)

    assert (young, renewed, old) == (False, False, True)
    assert files(tmp_path) == []
    assert await blobs.discard(SCOPE, ref, older_than=3600)


async def test_a_put_beside_a_discard_keeps_its_bytes(blobs: FileBlobs, tmp_path: Path) -> None:
    ref = await blobs.put(SCOPE, b"text")

    for _ in range(100):
        for each in files(tmp_path):
            os.utime(each, (0, 0))
        await asyncio.gather(blobs.discard(SCOPE, ref, older_than=3600), blobs.put(SCOPE, b"text"))
        assert await blobs.get(SCOPE, ref) == b"text"


async def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(DataFolderError):
        async with open_blobs(tmp_path / "file" / "blobs"):
            pass


async def test_a_blob_is_whole_missing_or_damaged(blobs: FileBlobs, tmp_path: Path) -> None:
    whole, damaged = await blobs.put(SCOPE, b"whole"), await blobs.put(SCOPE, b"right")
    next(each for each in files(tmp_path) if each.name == damaged.sha256).write_bytes(b"wrong")

    assert await blobs.condition(SCOPE, whole) is BlobCondition.WHOLE
    assert await blobs.condition(SCOPE, damaged) is BlobCondition.DAMAGED
    assert await blobs.condition(OTHER, whole) is BlobCondition.MISSING


async def test_in_place_of_a_damaged_blob_that_was_put_aside_the_right_bytes_are_put(
    blobs: FileBlobs, tmp_path: Path
) -> None:
    ref = await blobs.put(SCOPE, b"right")
    [path] = files(tmp_path)
    path.write_bytes(b"wrong")

    await blobs.quarantine(SCOPE, ref)
    missing = await blobs.condition(SCOPE, ref)
    await blobs.put(SCOPE, b"right")

    assert missing is BlobCondition.MISSING
    assert await blobs.get(SCOPE, ref) == b"right"
    assert [each.read_bytes() for each in files(tmp_path) if each.name == f".damaged-{ref.sha256}"] == [b"wrong"]


async def test_every_stored_blob_is_listed_and_discarded_once_it_is_old(blobs: FileBlobs, tmp_path: Path) -> None:
    ref = await blobs.put(SCOPE, b"text")
    await blobs.quarantine(SCOPE, await blobs.put(SCOPE, b"aside"))
    os.utime(next(each for each in files(tmp_path) if each.name == ref.sha256), (time.time() - 100, time.time() - 100))

    [found] = [each async for stored in blobs.stored() for each in stored]
    young = await blobs.discard_stored(found, older_than=1000)
    old = await blobs.discard_stored(found, older_than=50)

    assert found == StoredBlob(folder=folder_of("acme"), sha256=ref.sha256, age=found.age)
    assert found.age > 50
    assert (young, old) == (False, True)
    assert await blobs.condition(SCOPE, ref) is BlobCondition.MISSING
