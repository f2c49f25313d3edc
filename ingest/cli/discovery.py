"""Which files the given paths name, and under which source each one is kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag.core.names import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file to upload; ``source`` is its POSIX path relative to the given root, its name for a given file."""

    source: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that cannot be uploaded, and why."""

    source: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A folder that was not entered, because that was not asked for."""

    path: Path


def discover(roots: Sequence[Path], *, recursive: bool) -> Iterator[Found | Fault | LeftOut]:
    """Name the files under ``roots`` in a stable order.

    Hidden files and folders are skipped unless they are roots themselves; links are followed, each folder is
    entered once. Two files with one source are a fault: the second would replace the first.
    """
    taken = dict[str, Path]()
    for root in roots:
        for item in _in_root(root, recursive=recursive):
            earlier = taken.setdefault(visible(item.source), item.path) if isinstance(item, Found) else None
            if isinstance(item, Found) and earlier != item.path:
                yield _fault(item.path, item.source, "duplicate_source", f"{earlier} has the same source")
            else:
                yield item


def _in_root(root: Path, *, recursive: bool) -> Iterator[Found | Fault | LeftOut]:
    if root.is_dir():
        yield from _in_folder(root, root, recursive=recursive, entered=set())
    else:
        yield _file(root, Path(root.name))


def _in_folder(
    folder: Path, root: Path, *, recursive: bool, entered: set[tuple[int, int]]
) -> Iterator[Found | Fault | LeftOut]:
    try:
        status = folder.stat()
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        yield _fault(folder, _source(folder.relative_to(root)), "unreadable", error.strerror or str(error))
        return
    if (status.st_dev, status.st_ino) in entered:
        return
    entered.add((status.st_dev, status.st_ino))
    for path in (folder / name for name in names if not name.startswith(".")):
        if not os.path.isdir(path):  # noqa: PTH112  pathlib raises for a name that is too long
            yield _file(path, path.relative_to(root))
        elif recursive:
            yield from _in_folder(path, root, recursive=recursive, entered=entered)
        else:
            yield LeftOut(path=path)


def _file(path: Path, relative: Path) -> Found | Fault:
    source = _source(relative)
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        return _fault(path, source, "unreadable", error.strerror or str(error))
    return Found(source=source, path=path) if regular else _fault(path, source, "unreadable", "it is no regular file")


def _fault(path: Path, source: str, code: str, why: str) -> Fault:
    return Fault(source=source, code=code, message=f"{_source(path)}: {why}")


def _source(path: Path) -> str:
    """Return a path as text; bytes that are no UTF-8 are written as escapes."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")
