"""Uploads: multipart bodies read piece by piece, counted, checked whole before anything is kept."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from rag.api.deps import body_pieces, check_announced_length, content_charset, too_large
from rag.api.metadata import accept_metadata
from rag.core.errors import BlobError, InvalidRequestError, StorageFullError, TooLargeError
from rag.core.media import HEAD_BYTES, detect
from rag.core.names import source_name
from rag.core.types import FieldType, Metadata

FRAMING_BYTES = 64 * 1024
"""Room for part headers and metadata beside the files."""
MAX_FILES = 100

_FIELDS = frozenset({"file", "metadata", "source"})
_CHARSETS = frozenset({"", "utf-8", "utf8"})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that passed the checks. ``file`` holds the bytes, on disk when they are many."""

    source: str
    media_type: str
    file: UploadFile

    async def content(self) -> bytes:
        """All of its bytes."""
        await self.file.seek(0)
        return await self.file.read()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The files of one request and the metadata that goes with each of them."""

    uploads: tuple[Upload, ...]
    metadata: Metadata


async def read_form(request: Request, *, max_upload: int) -> FormData:
    """Read a multipart body. Whoever called closes the form.

    Raises ``TooLargeError`` as soon as more than ``max_upload`` bytes have come, announced or not,
    ``InvalidRequestError`` for a malformed body and ``StorageFullError`` when it cannot be held.
    """
    most = max_upload + FRAMING_BYTES
    check_announced_length(request, most)
    if content_charset(request) not in _CHARSETS:
        raise InvalidRequestError("the text fields of an upload are UTF-8")
    parser = _Parser(request.headers, _counted(request, most), max_files=MAX_FILES, max_fields=len(_FIELDS))
    form = await _parsed(parser)
    if not parser.ended:
        await form.close()
        raise InvalidRequestError("the multipart body breaks off before its closing boundary")
    return form


class _Parser(MultiPartParser):
    """Knows whether the closing boundary came; without it the last part may be cut off or missing."""

    ended = False

    def on_end(self) -> None:
        """The closing boundary was read."""
        self.ended = True


async def _parsed(parser: _Parser) -> FormData:
    try:
        return await parser.parse()
    except MultiPartException as error:
        raise InvalidRequestError(f"the multipart body cannot be read: {error.message}") from error
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFullError("there is no room to receive the upload") from error
        raise BlobError("the upload could not be received") from error


async def _counted(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    received = 0
    async for piece in body_pieces(request):
        received += len(piece)
        if received > most:
            raise too_large(most)
        yield piece


async def check_form(form: FormData, *, fields: Mapping[str, FieldType], max_upload: int) -> Batch:
    """Check all of a form. Raises a request error that names the first fault; nothing has been kept then."""
    unknown = sorted(set(form) - _FIELDS)
    if unknown:
        raise InvalidRequestError(f"unknown field {', '.join(unknown)}; an upload has file, metadata and source")
    files = _files(form)
    given = _single(form, "source")
    if given is not None and len(files) > 1:
        raise InvalidRequestError("source names one document: send one file with it")
    metadata = accept_metadata(_json_object(_single(form, "metadata")), fields)
    uploads = [await _check_file(file, given, max_upload) for file in files]
    _check_distinct([upload.source for upload in uploads])
    return Batch(uploads=tuple(uploads), metadata=metadata)


def _files(form: FormData) -> list[UploadFile]:
    parts = form.getlist("file")
    files = [part for part in parts if isinstance(part, UploadFile)]
    if not files or len(files) != len(parts):
        raise InvalidRequestError("an upload has at least one part named file, each with a file name")
    return files


def _single(form: FormData, name: str) -> str | None:
    values = form.getlist(name)
    if not values:
        return None
    if len(values) > 1 or not isinstance(values[0], str):
        raise InvalidRequestError(f"{name} is one text field")
    return values[0]


def _json_object(text: str | None) -> Mapping[str, Any]:
    if text is None or not text.strip():
        return {}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"metadata is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequestError("metadata is a JSON object")
    return value


async def _check_file(file: UploadFile, given: str | None, max_upload: int) -> Upload:
    source = source_name(given if given is not None else file.filename or "")
    if not file.size:
        raise InvalidRequestError(f"{source!r} is empty")
    if file.size > max_upload:
        raise TooLargeError(f"{source!r} is larger than {max_upload} bytes")
    head = await file.read(HEAD_BYTES)
    media_type = detect(source, head, file.content_type)
    return Upload(source=source, media_type=media_type, file=file)


def _check_distinct(sources: Sequence[str]) -> None:
    twice = sorted({source for source in sources if sources.count(source) > 1})
    if twice:
        raise InvalidRequestError(f"{twice[0]!r} is there twice: a source names one document")
