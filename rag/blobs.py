"""Content-addressed blob files, per tenant: ``<folder>/<hash of the tenant>/<two hex digits>/<sha256>``."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from rag.core.catalog import BlobRef
from rag.core.errors import BlobError, DataFolderError, StorageFullError
from rag.core.types import Scope

_TEMPORARY = ".put-"
_TRASH = ".trash-"
_DAMAGED = ".damaged-"
_HEX = frozenset("0123456789abcdef")
_LEFTOVER_SECONDS = 3600.0


class BlobCondition(StrEnum):
    """How a blob was found."""

    WHOLE = "whole"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBlob:
    """A blob file as it lies: ``folder`` is its tenant's, ``age`` the seconds since it was last put."""

    folder: str
    sha256: str
    age: float


class FileBlobs:
    """Blobs in a folder. Every call works in a thread; what is there is always whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, scope: Scope, content: bytes) -> BlobRef:
        """Durable when it returns; bytes that are there already are not written again.

        Raises ``StorageFullError`` or ``BlobError``; nothing half-written stays.
        """
        return await asyncio.to_thread(self._put, scope, content)

    async def get(self, scope: Scope, ref: BlobRef) -> bytes:
        """The bytes, checked against their hash. Raises ``BlobError``."""
        return await asyncio.to_thread(self._get, scope, ref)

    async def delete(self, scope: Scope, ref: BlobRef) -> None:
        """Remove; a missing one is a no-op."""
        await asyncio.to_thread(self._delete, scope, ref)

    async def discard(self, scope: Scope, ref: BlobRef, *, older_than: float) -> bool:
        """Remove what was last put more than ``older_than`` seconds ago; ``False``: it is younger, and stays.

        Safe beside a ``put`` of the same bytes: whichever comes first, the put's blob stays.
        """
        return await asyncio.to_thread(self._discard, self._path(scope, ref), older_than)

    async def condition(self, scope: Scope, ref: BlobRef) -> BlobCondition:
        """How the blob is, its bytes read through. Raises ``BlobError`` when that cannot be found out."""
        return await asyncio.to_thread(_condition, self._path(scope, ref))

    async def quarantine(self, scope: Scope, ref: BlobRef) -> None:
        """Put a damaged blob aside under another name, so that the right bytes can be put in its place."""
        path = self._path(scope, ref)
        with _blob_errors():
            await asyncio.to_thread(path.replace, path.with_name(f"{_DAMAGED}{ref.sha256}"))

    async def stored(self) -> AsyncIterator[list[StoredBlob]]:
        """Every blob file there is, in lists of one tenant, at most a 256th of its blobs each."""
        for folder in await asyncio.to_thread(lambda: sorted(self._folder.glob("*/*"))):
            yield await asyncio.to_thread(_stored, folder)

    async def discard_stored(self, blob: StoredBlob, *, older_than: float) -> bool:
        """What :meth:`discard` does, of a file as it lies."""
        path = self._folder / blob.folder / blob.sha256[:2] / blob.sha256
        return await asyncio.to_thread(self._discard, path, older_than)

    def _path(self, scope: Scope, ref: BlobRef) -> Path:
        if len(ref.sha256) != hashlib.sha256().digest_size * 2 or not _HEX.issuperset(ref.sha256):
            raise BlobError("a blob is named by its SHA-256 in hex")
        return self._folder / folder_of(scope.tenant) / ref.sha256[:2] / ref.sha256

    def _put(self, scope: Scope, content: bytes) -> BlobRef:
        ref = BlobRef(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        path = self._path(scope, ref)
        with _blob_errors():
            if not _touch(path, ref.size):
                _make_folder(path.parent, self._folder)
                _write(path, content)
        return ref

    def _get(self, scope: Scope, ref: BlobRef) -> bytes:
        path = self._path(scope, ref)
        with _blob_errors():
            content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != ref.sha256:
            raise BlobError(f"blob {ref.sha256} is damaged")
        return content

    def _delete(self, scope: Scope, ref: BlobRef) -> None:
        with _blob_errors():
            self._path(scope, ref).unlink(missing_ok=True)

    def _discard(self, path: Path, older_than: float) -> bool:
        trash = path.with_name(f"{_TRASH}{uuid4().hex}")
        with _blob_errors(), suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime < older_than:
                return False
            # A put that comes now finds no file and writes one; one that came before the rename shows in the time.
            path.rename(trash)
            if time.time() - trash.stat().st_mtime < older_than:
                trash.rename(path)
                return False
            trash.unlink()
        return True


@asynccontextmanager
async def open_blobs(folder: Path | str) -> AsyncIterator[FileBlobs]:
    """Open the blob folder, made where it is missing; what a crash left half-written is removed.

    Raises ``DataFolderError`` when it cannot be written, ``StorageFullError`` when the disk is full.
    """
    yield FileBlobs(await asyncio.to_thread(_prepare, Path(folder)))


def folder_of(tenant: str) -> str:
    """The name of the folder in which a tenant's blobs lie."""
    return hashlib.sha256(tenant.encode()).hexdigest()[:32]


def _condition(path: Path) -> BlobCondition:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return BlobCondition.MISSING
    except OSError as error:
        raise BlobError(f"the blob folder failed: {error.strerror}") from error
    return BlobCondition.WHOLE if found == path.name else BlobCondition.DAMAGED


def _stored(folder: Path) -> list[StoredBlob]:
    found, now = [], time.time()
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if len(path.name) == hashlib.sha256().digest_size * 2 and _HEX.issuperset(path.name):
                age = now - path.stat().st_mtime
                found.append(StoredBlob(folder=folder.parent.name, sha256=path.name, age=age))
    return found


def _prepare(named: Path) -> Path:
    folder = named.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = folder / f"{_TEMPORARY}{uuid4().hex}"
        probe.touch()
        probe.unlink()
        _remove_leftovers(folder)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(f"no space left for {folder}") from error
        raise DataFolderError(f"{folder} cannot be written: {error.strerror}") from error
    return folder


def _remove_leftovers(folder: Path) -> None:
    """Old ones only: other processes of the same service may be writing."""
    for name in (_TEMPORARY, _TRASH):
        for leftover in folder.glob(f"*/*/{name}*"):
            with suppress(FileNotFoundError):
                if time.time() - leftover.stat().st_mtime > _LEFTOVER_SECONDS:
                    leftover.unlink()


def _touch(path: Path, size: int) -> bool:
    """Whether the blob is there; its time then says when it was last put."""
    with suppress(FileNotFoundError):
        os.utime(path)
        return path.stat().st_size == size
    return False


def _make_folder(folder: Path, root: Path) -> None:
    missing = [each for each in (folder, *folder.parents) if each.is_relative_to(root) and not each.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for each in missing:
        _sync_folder(each.parent)


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{_TEMPORARY}{uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _blob_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise BlobError("the blob does not exist") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError("the disk of the blob folder is full") from error
        raise BlobError(f"the blob folder failed: {error.strerror}") from error
