"""Multipart uploads, read from a request and checked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.types import Message

from rag.api import deps
from rag.api.metadata import MAX_METADATA_BYTES
from rag.api.uploads import FRAMING_BYTES, check_form, read_form
from rag.core.errors import (
    AnchorageError,
    DeadlineExceededError,
    FilterError,
    InvalidRequestError,
    TooLargeError,
    UnsupportedMediaTypeError,
)
from rag.core.types import FieldType

LIMIT = 100_000
FIELDS = {"year": FieldType.INTEGER}


class Body:
    """A request's body, handed out piece by piece; ``taken`` counts the bytes that were asked for."""

    def __init__(self, content: bytes, *, piece: int = 1024) -> None:
        self._pieces = [content[start : start + piece] for start in range(0, len(content), piece)] or [b""]
        self.taken = 0

    async def __call__(self) -> Message:
        body = self._pieces.pop(0)
        self.taken += len(body)
        return {"type": "http.request", "body": body, "more_body": bool(self._pieces)}


def request_of(
    files: Sequence[tuple[str, bytes]], data: dict[str, str] | None = None, *, announced: bool = True
) -> tuple[Request, Body]:
    parts = [("file", (name, content, "application/octet-stream")) for name, content in files]
    built = httpx.Request("POST", "http://test/", files=parts, data=data)
    headers = [(name.lower(), value) for name, value in built.headers.raw]
    if not announced:
        headers = [(name, value) for name, value in headers if name != b"content-length"]
    body = Body(built.read())
    return Request({"type": "http", "method": "POST", "headers": headers}, body), body


@asynccontextmanager
async def form_of(files: Sequence[tuple[str, bytes]], data: dict[str, str] | None = None) -> AsyncIterator[FormData]:
    request, _ = request_of(files, data)
    form = await read_form(request, max_upload=LIMIT)
    try:
        yield form
    finally:
        await form.close()


async def test_files_come_with_their_sources_types_and_the_metadata() -> None:
    async with form_of([("a.txt", b"one"), ("资料.md", "# 标题".encode())], {"metadata": '{"year": 2024}'}) as form:
        batch = await check_form(form, fields=FIELDS, max_upload=LIMIT)
        contents = [await upload.content() for upload in batch.uploads]

    assert [upload.source for upload in batch.uploads] == ["a.txt", "资料.md"]
    assert [upload.media_type for upload in batch.uploads] == ["text/plain", "text/markdown"]
    assert contents == [b"one", "# 标题".encode()]
    assert batch.metadata == {"year": 2024}


async def test_the_field_source_names_the_document_instead_of_its_file() -> None:
    async with form_of([("upload.tmp", b"one")], {"source": "reports/one.txt"}) as form:
        batch = await check_form(form, fields=FIELDS, max_upload=LIMIT)

    assert [upload.source for upload in batch.uploads] == ["reports/one.txt"]


@pytest.mark.parametrize(
    ("files", "data", "error"),
    [
        ([("a.txt", b"")], {}, InvalidRequestError),
        ([], {"source": "a.txt", "metadata": "{}"}, InvalidRequestError),
        ([("\u202e", b"one")], {}, InvalidRequestError),
        ([("a.txt", b"one"), ("a.txt", b"two")], {}, InvalidRequestError),
        ([("a.txt", b"one"), ("b.txt", b"two")], {"source": "c.txt"}, InvalidRequestError),
        ([("a.txt", b"one")], {"metadata": "{"}, InvalidRequestError),
        ([("a.txt", b"one")], {"metadata": "[1]"}, InvalidRequestError),
        ([("a.txt", b"one")], {"metadata": '{"year": "MMXXIV"}'}, FilterError),
        ([("a.txt", b"one")], {"metadata": '{"text": "reserved"}'}, FilterError),
        ([("a.txt", b"one")], {"tags": "x"}, InvalidRequestError),
        ([("a.xyz", b"\x00\x01\x02")], {}, UnsupportedMediaTypeError),
        ([("a.txt", b"half \x00 text")], {}, UnsupportedMediaTypeError),
        ([("a.txt", b"one")], {"source": "a\0b.txt"}, InvalidRequestError),
        ([("a.txt", b"x" * (LIMIT + 1))], {}, TooLargeError),
    ],
)
async def test_a_faulty_upload_is_refused(
    files: list[tuple[str, bytes]], data: dict[str, str], error: type[AnchorageError]
) -> None:
    if not files:
        data = data | {}
    request, _ = request_of(files or [("", b"")], data)
    form = await read_form(request, max_upload=LIMIT)

    with pytest.raises(error):
        await check_form(form, fields=FIELDS, max_upload=LIMIT)

    await form.close()


async def test_an_upload_that_announces_too_many_bytes_is_refused_unread() -> None:
    request, body = request_of([("a.txt", b"x" * (LIMIT + FRAMING_BYTES + 1))])

    with pytest.raises(TooLargeError):
        await read_form(request, max_upload=LIMIT)

    assert body.taken == 0


async def test_an_upload_that_announces_nothing_is_refused_as_soon_as_it_is_too_large() -> None:
    request, body = request_of([("a.txt", b"x" * 10 * (LIMIT + FRAMING_BYTES))], announced=False)

    with pytest.raises(TooLargeError):
        await read_form(request, max_upload=LIMIT)

    assert LIMIT + FRAMING_BYTES < body.taken <= LIMIT + FRAMING_BYTES + 1024


async def test_a_body_that_is_not_multipart_inside_is_refused() -> None:
    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    request = Request({"type": "http", "method": "POST", "headers": headers}, Body(b"not multipart"))

    with pytest.raises(InvalidRequestError):
        await read_form(request, max_upload=LIMIT)


PART = b'--x\r\nContent-Disposition: form-data; name="file"; filename="%s.txt"\r\n\r\ntext'


@pytest.mark.parametrize("body", [PART % b"a" + b"\r\n" + PART % b"b", PART % b"a" + b"\r\n--x\r\n", b""])
async def test_a_body_that_breaks_off_before_its_end_is_refused(body: bytes) -> None:
    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    request = Request({"type": "http", "method": "POST", "headers": headers}, Body(body))

    with pytest.raises(InvalidRequestError, match="breaks off"):
        await read_form(request, max_upload=LIMIT)


@pytest.mark.parametrize("charset", ["undefined", "punycode", "utf-16"])
async def test_an_upload_in_another_charset_is_refused(charset: str) -> None:
    headers = [(b"content-type", f"multipart/form-data; boundary=x; charset={charset}".encode())]
    request = Request({"type": "http", "method": "POST", "headers": headers}, Body(PART % b"a" + b"\r\n--x--\r\n"))

    with pytest.raises(InvalidRequestError, match="UTF-8"):
        await read_form(request, max_upload=LIMIT)


async def test_a_client_that_stops_within_its_body_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deps, "BODY_PAUSE_SECONDS", 0.01)
    headers = [(b"content-type", b"multipart/form-data; boundary=x")]

    async def silence() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    request = Request({"type": "http", "method": "POST", "headers": headers}, silence)

    with pytest.raises(DeadlineExceededError):
        await read_form(request, max_upload=LIMIT)


async def test_metadata_that_every_chunk_would_carry_is_bounded() -> None:
    metadata = {"metadata": json.dumps({"note": "x" * MAX_METADATA_BYTES})}

    async with form_of([("a.txt", b"one")], metadata) as form:
        with pytest.raises(InvalidRequestError, match="metadata"):
            await check_form(form, fields=FIELDS, max_upload=LIMIT)
