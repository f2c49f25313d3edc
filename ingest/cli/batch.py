"""Uploading many files to a running service, and following them to their end.

One failure is one row: the batch goes on. A connection that breaks is tried again, for as long as the service
has answered within the last minute; uploads may be repeated, since the same bytes are taken once.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ingest.cli.discovery import Fault, Found
from rag.cli.client import Service, decode, path
from rag.cli.exits import RefusedError, ServiceUnreachableError
from rag.core.types import DocumentState

PATIENCE = 60.0
"""Seconds that a service may be silent before files fail at their first try."""

BACKLOG_PATIENCE = 600.0
"""Seconds that a service may take no file because too many wait there."""

_POLLED_TOGETHER = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 1.0
_FIRST_RETRY, _LONGEST_RETRY = 0.5, 8.0
_BUSY = frozenset({429, 502, 503, 504})
_BACKLOG_FULL = "backlog_full"
_UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What became of one file. ``state`` is the document's, or ``unsupported``, or ``failed`` before the upload."""

    source: str
    state: str
    id: str | None = None
    stage: str | None = None
    quality: str | None = None
    chunks: int | None = None
    unchanged: bool = False
    code: str | None = None
    message: str | None = None

    @property
    def pending(self) -> bool:
        """Whether the service still works on it."""
        return self.state in {DocumentState.QUEUED, DocumentState.RUNNING}

    @property
    def failed(self) -> bool:
        """Whether it came to nothing."""
        return not self.pending and self.state != DocumentState.PUBLISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What is the same for every file of a batch."""

    collection: str
    metadata: Mapping[str, Any]
    concurrency: int


async def ensure_collection(service: Service, name: str) -> None:
    """Create the collection when there is none of this name."""
    try:
        await service.get(path("collections", name))
    except RefusedError as error:
        if error.http_status != 404:
            raise
        await service.post(path("collections"), {"name": name})


class Batch:
    """The rows of one run, by source."""

    def __init__(
        self,
        service: Service,
        upload: Upload,
        *,
        patience: float = PATIENCE,
        backlog_patience: float = BACKLOG_PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        show: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.rows = dict[str, Row]()
        self._service = service
        self._upload = upload
        self._patience = patience
        self._backlog_patience = backlog_patience
        self._clock = clock
        self._show = show
        self._answered = clock()

    @property
    def uploaded(self) -> int:
        """Documents that the service has."""
        return sum(row.id is not None for row in self.rows.values())

    def in_order(self, files: Sequence[Found]) -> list[Row]:
        """Return the rows in the order of the files, faults at the end."""
        places = {file.source: place for place, file in enumerate(files)}
        return [self.rows[key] for key in sorted(self.rows, key=lambda key: places.get(key, len(places)))]

    def note_faults(self, faults: Iterable[Fault]) -> None:
        """Enter a failed row for each file that cannot be uploaded."""
        for fault in faults:
            self.rows[fault.source if fault.source not in self.rows else fault.message] = Row(
                source=fault.source, state=DocumentState.FAILED, code=fault.code, message=fault.message
            )

    async def upload_all(self, files: Sequence[Found]) -> None:
        """Upload every file, some at a time."""
        remaining = iter(files)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._upload.concurrency):
                tasks.create_task(self._take(remaining, total=len(files)))

    async def _take(self, files: Iterator[Found], *, total: int) -> None:
        for file in files:
            self.rows[file.source] = await self._upload_one(file)
            self._show(f"uploaded {self.uploaded} of {total}: {file.source}")

    async def _upload_one(self, file: Found) -> Row:
        delay = _FIRST_RETRY
        while True:
            try:
                return _row(file.source, await self._send(file))
            except OSError as error:
                return _failed(file.source, code="unreadable", message=f"{file.path}: {error.strerror or error}")
            except (RefusedError, ServiceUnreachableError) as error:
                if not self._worth_another_try(error):
                    return _refused(file.source, error)
                await asyncio.sleep(max(delay, min(error.retry_after or 0.0, _LONGEST_RETRY)))
            delay = min(_LONGEST_RETRY, 2 * delay)

    async def _send(self, file: Found) -> dict[str, Any]:
        content = await asyncio.to_thread(file.path.open, "rb")
        try:
            response = await self._service.request(
                "POST",
                path("collections", self._upload.collection, "documents"),
                files={"file": (Path(file.source).name, content, "application/octet-stream")},
                data={"source": file.source, "metadata": json.dumps(dict(self._upload.metadata))},
            )
        finally:
            content.close()
        self._answered = self._clock()
        documents = decode(response)["documents"]
        return dict(documents[0])

    def _worth_another_try(self, error: RefusedError | ServiceUnreachableError) -> bool:
        if isinstance(error, RefusedError) and error.http_status not in _BUSY:
            self._answered = self._clock()
            return False
        silent = self._clock() - self._answered
        if isinstance(error, RefusedError) and error.refusal == _BACKLOG_FULL:
            self._show(f"uploaded {self.uploaded}; the service takes more when it has worked some off")
            return silent < self._backlog_patience
        return silent < self._patience

    async def follow(self, *, timeout: float) -> None:
        """Poll until no document is pending, or nothing has changed for ``timeout`` seconds."""
        changed, pause = self._clock(), _FIRST_PAUSE
        while pending := [row for row in self.rows.values() if row.pending]:
            oldest = pending[:_POLLED_TOGETHER]
            news = await asyncio.gather(*map(self._poll, oldest))
            self.rows.update({row.source: row for row in news})
            self._show(_summary(self.rows.values()))
            if any(new != old for new, old in zip(news, oldest, strict=True)):
                changed = self._clock()
            if self._clock() - changed >= timeout:
                return
            if all(row.pending for row in news):
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 1.3)
            else:
                pause = _FIRST_PAUSE

    async def _poll(self, row: Row) -> Row:
        try:
            document = await self._service.get(path("collections", self._upload.collection, "documents", str(row.id)))
        except RefusedError as error:
            return row if error.http_status in _BUSY else _refused(row.source, error)
        except ServiceUnreachableError:
            return row
        return replace(_row(row.source, document), unchanged=row.unchanged)


def count_states(rows: Iterable[Row]) -> Mapping[str, int]:
    """Return how many rows are in each state."""
    return dict(Counter(str(row.state) for row in rows))


def _summary(rows: Iterable[Row]) -> str:
    return ", ".join(f"{count} {state}" for state, count in count_states(rows).items())


def _row(source: str, document: Mapping[str, Any]) -> Row:
    error = document.get("error") or {}
    return Row(
        source=source,
        id=document["id"],
        state=document["state"],
        stage=document.get("stage"),
        quality=document.get("quality"),
        chunks=document.get("chunks"),
        unchanged=bool(document.get("unchanged")),
        code=error.get("code"),
        message=error.get("message"),
    )


def _failed(source: str, *, code: str, message: str) -> Row:
    return Row(source=source, state=DocumentState.FAILED, code=code, message=message)


def _refused(source: str, error: RefusedError | ServiceUnreachableError) -> Row:
    if isinstance(error, ServiceUnreachableError):
        return _failed(source, code=error.code, message=error.message)
    state = _UNSUPPORTED if error.http_status == 415 else DocumentState.FAILED
    return Row(source=source, state=state, code=error.refusal, message=error.message)
