"""One collection of the embedded engine: its folder, the shard in it that serves, and what must survive a crash.

The folder holds ``collection.json`` (the spec, and which of the folders beside it is the shard that counts) and
that shard. The file is replaced atomically: a folder that it does not name was being made when the process died.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import orjson

from rag.core.records import CollectionSpec
from stores.qdrant import edge, wire
from stores.qdrant.engine import Condition

FILE = "collection.json"
_PAGE = 1000
_COPY_PAGE = 256


class Collection:
    """A collection that is open. Once made, no call awaits, so each is atomic to the others."""

    def __init__(self, folder: Path, spec: CollectionSpec, shard: edge.Shard, name: str, *, indexed: int) -> None:
        self.folder = folder
        self.spec = spec
        self.fresh = max(0, shard.info().points_count - indexed)
        """Rows written since the index was built: an upper bound of those that it does not cover."""
        self.writes = 0
        """Counts the changes, so that a pause can be told."""
        self._shard = shard
        self._name = name
        self._changed: set[UUID] | None = None
        self._dirty = False

    @classmethod
    async def create(cls, folder: Path, spec: CollectionSpec) -> Collection:
        """Make the folder and an empty shard with its payload indexes; a half-made one is replaced.

        Each index takes the engine a while, so others are served in between.
        """
        shutil.rmtree(folder, ignore_errors=True)
        name = _new_name()
        (folder / name).mkdir(parents=True)
        shard = edge.Shard.create(str(folder / name), edge.config_of(spec, threshold=edge.NEVER))
        for operation in edge.index_operations(spec):
            shard.update(operation)
            await asyncio.sleep(0)
        shard.flush()
        _write_file(folder, spec, name, indexed=0)
        return cls(folder, spec, shard, name, indexed=0)

    @classmethod
    def load(cls, folder: Path) -> Collection | None:
        """Open the collection of the folder; ``None`` where it is not, or not yet, completely made."""
        if not (folder / FILE).exists():
            return None
        stored = orjson.loads((folder / FILE).read_bytes())
        name = stored["shard"]
        for other in folder.iterdir():
            if other.name not in (name, FILE):
                _remove(other)
        spec = CollectionSpec.from_json(stored["spec"])
        shard = edge.Shard.load(str(folder / name), edge.config_of(spec, threshold=edge.NEVER))
        return cls(folder, spec, shard, name, indexed=stored["indexed"])

    @property
    def rows(self) -> int:
        """How many points there are."""
        return int(self._shard.info().points_count)

    def upsert(self, header: wire.Header, vectors: Any, first: int, last: int) -> None:
        """Write the rows ``first`` to ``last - 1`` of a request."""
        self._note([UUID(id) for id in header["ids"][first:last]])
        self._shard.update(edge.upsert_operation(header, vectors, first, last))
        self.fresh += last - first

    def delete(self, condition: Condition) -> None:
        """Delete what passes."""
        while ids := self._ids(condition):
            self._note(ids)
            self._shard.update(edge.delete_operation(ids))

    def set_payload(self, condition: Condition, payload: dict[str, Any]) -> None:
        """Replace top-level keys of the payload of what passes."""
        after: UUID | None = None
        while True:
            request = edge.scroll_request(condition, after=after, limit=_PAGE, whole=False)
            records, after = self._engine.scroll(request)
            if ids := [record.id for record in records]:
                self._note(ids)
                self._shard.update(edge.payload_operation(ids, payload))
            if after is None:
                return

    def count(self, condition: Condition) -> int:
        """How many points pass."""
        return int(self._shard.count(edge.count_request(condition)))

    def scroll(self, condition: Condition, *, after: UUID | None, limit: int) -> tuple[list[Any], UUID | None]:
        """A page of whole points, and where the next one begins."""
        page: tuple[list[Any], UUID | None] = self._engine.scroll(
            edge.scroll_request(condition, after=after, limit=limit, whole=True)
        )
        return page

    def query(self, header: wire.Header, body: bytes) -> list[list[Any]]:
        """The best points of each query."""
        found: list[list[Any]] = self._engine.query_batch(edge.query_requests(header, body))
        return found

    def flush(self) -> None:
        """Bring what was written from the log into the segments, so that opening is fast."""
        if self._dirty:
            self._dirty = False
            self._shard.flush()

    def close(self) -> None:
        """Flush and let the folder go."""
        self._shard.flush()
        self._shard.close()

    def drop(self) -> None:
        """Close, and remove the folder: without its file it is no collection, whatever happens next."""
        (self.folder / FILE).unlink(missing_ok=True)
        self._shard.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def shard_folder(self) -> Path:
        """The folder of the shard that serves."""
        return self.folder / self._name

    @contextmanager
    def copying(self) -> Iterator[Path]:
        """Where to copy the shard to; points that change meanwhile are noted. An error removes the copy."""
        copy = self.folder / _new_name()
        self._changed = set()
        try:
            yield copy
        except BaseException:
            self._changed = None
            shutil.rmtree(copy, ignore_errors=True)
            raise

    def open_copy(self, copy: Path) -> edge.Shard:
        """The copy, to catch up with what has changed since."""
        return edge.Shard.load(str(copy), edge.config_of(self.spec, threshold=edge.NEVER))

    def catch_up(self, built: edge.Shard) -> bool:
        """Bring some of the changed points into ``built``; whether there were any."""
        changed = self._changed or set()
        ids = [changed.pop() for _ in range(min(_COPY_PAGE, len(changed)))]
        if ids:
            records = self._engine.retrieve(ids, True, True)  # noqa: FBT003  the engine's own signature
            if gone := list(set(ids) - {record.id for record in records}):
                built.update(edge.delete_operation(gone))
            if records:
                built.update(edge.copy_operation(records))
        return bool(ids)

    def swap(self, built: edge.Shard, copy: Path, *, indexed: int, fresh: int) -> None:
        """Serve from ``built`` from now on; it must have caught up. The old shard's folder is removed."""
        built.flush()
        _write_file(self.folder, self.spec, copy.name, indexed=indexed)
        old, old_name = self._shard, self._name
        self._shard, self._name, self.fresh, self._changed = built, copy.name, fresh, None
        old.close()
        shutil.rmtree(self.folder / old_name, ignore_errors=True)

    @property
    def _engine(self) -> Any:
        """The shard without the types of its stubs, which know ids of all kinds at once."""
        return self._shard

    def _ids(self, condition: Condition) -> list[UUID]:
        records, _ = self._engine.scroll(edge.scroll_request(condition, after=None, limit=_PAGE, whole=False))
        return [record.id for record in records]

    def _note(self, ids: list[UUID]) -> None:
        self.writes += 1
        self._dirty = True
        if self._changed is not None:
            self._changed.update(ids)


def _new_name() -> str:
    return f"shard-{uuid4().hex}"


def _write_file(folder: Path, spec: CollectionSpec, name: str, *, indexed: int) -> None:
    partial = folder / f"{FILE}.new"
    with partial.open("wb") as file:
        file.write(orjson.dumps({"spec": spec.to_json(), "shard": name, "indexed": indexed}))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / FILE)
    _sync(folder)
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
