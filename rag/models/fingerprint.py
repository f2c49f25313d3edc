"""Hashes of large files, remembered by path, size and time of change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from rag.models.folder import read_json, replace_json


def file_hashes(paths: Iterable[Path], *, memory: Path) -> Mapping[str, str]:
    """Return the SHA-256 of each file by path; ``memory`` keeps them, so that an unchanged file is read once.

    Raises OSError when a file cannot be read.
    """
    remembered = dict(read_json(memory))
    before = dict(remembered)
    hashes = {str(path): _hash(path, remembered) for path in paths}
    if remembered != before:
        replace_json(memory, remembered)
    return hashes


def _hash(path: Path, remembered: dict[str, object]) -> str:
    stat = path.stat()
    identity = [stat.st_size, stat.st_mtime_ns]
    entry = remembered.get(str(path))
    if isinstance(entry, dict) and entry.get("identity") == identity:
        return str(entry["sha256"])
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    remembered[str(path)] = {"identity": identity, "sha256": digest}
    return digest
