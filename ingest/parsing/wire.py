"""What a parser process and its owner say to each other: frames of a JSON header and a body of bytes.

The child has read an untrusted document, so nothing it says is executed or trusted: no pickle, sizes are
checked before they are read, and every offset is checked before it is used.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag.core.types import Block, ParsedDocument, Quality

PREFIX = struct.Struct(">IQ")
"""Lengths of header and body, in bytes."""

MAX_HEADER_BYTES = 256 * 2**20
_KINDS = ("text", "table", "code")
_FORBIDDEN = ("\x00", "\r")
_MAX_CODE = 64
_MAX_MESSAGE = 500
_MAX_STRUCTURE = 2**18


class WireError(Exception):
    """A frame does not hold what it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a child made of a document: the document, or the code and message of a failure.

    ``peak_bytes`` is the child's largest resident size so far.
    """

    parser: str
    peak_bytes: int
    document: ParsedDocument | None = None
    code: str | None = None
    message: str | None = None


def frame_head(header: Mapping[str, Any], *, body_size: int) -> bytes:
    """A frame up to its body, which follows it."""
    encoded = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return PREFIX.pack(len(encoded), body_size) + encoded


def frame(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """One whole frame."""
    return frame_head(header, body_size=len(body)) + body


def reply_frame(reply: Reply) -> bytes:
    """The frame of a reply. Raises ``UnicodeEncodeError`` for text that is no Unicode."""
    header: dict[str, Any] = {
        "parser": reply.parser, "peak": reply.peak_bytes, "code": reply.code, "message": reply.message,
    }  # fmt: skip
    document = reply.document
    if document is None:
        return frame(header)
    paths = list(dict.fromkeys(block.headings for block in document.blocks))
    places = {path: place for place, path in enumerate(paths)}
    header["title"], header["encoding"], header["quality"] = document.title, document.encoding, document.quality.value
    header["structure"] = dict(document.structure)
    header["paths"] = paths
    header["blocks"] = [
        (block.start, block.end, places[block.headings], block.page, _KINDS.index(block.kind))
        for block in document.blocks
    ]
    return frame(header, document.text.encode())


def read_reply(header: bytes, body: bytes) -> Reply:
    """The reply of a frame. Raises :class:`WireError` if it is not one."""
    try:
        fields = json.loads(header)
        reply = Reply(
            parser=_text(fields["parser"])[:_MAX_CODE],
            peak_bytes=int(fields["peak"]),
            code=_optional(fields["code"], _MAX_CODE),
            message=_optional(fields["message"], _MAX_MESSAGE),
            document=_document(fields, body) if fields["code"] is None else None,
        )
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise WireError("the reply cannot be read") from error
    return reply


def _document(fields: Mapping[str, Any], body: bytes) -> ParsedDocument:
    text = body.decode()
    if any(character in text for character in _FORBIDDEN):
        raise WireError("the text holds control characters")
    paths = [tuple(_text(title) for title in path) for path in fields["paths"]]
    blocks = tuple(_block(values, paths) for values in fields["blocks"])
    _check_tiling(blocks, len(text))
    return ParsedDocument(
        text=text,
        blocks=blocks,
        title=_optional(fields["title"], _MAX_MESSAGE),
        quality=Quality(fields["quality"]),
        encoding=_optional(fields["encoding"], _MAX_CODE),
        structure=_structure(fields["structure"]),
    )


def _structure(value: object) -> dict[str, Any]:
    """JSON values as they came, where they are small and can be stored."""
    encoded = json.dumps(value)
    if not isinstance(value, dict) or len(encoded) > _MAX_STRUCTURE or "\\u0000" in encoded:
        raise WireError("not structured metadata")
    return value


def _block(values: list[Any], paths: list[tuple[str, ...]]) -> Block:
    start, end, path, page, kind = values
    return Block(
        start=_whole(start),
        end=_whole(end),
        headings=paths[_whole(path)],
        page=None if page is None else _whole(page),
        kind=_KINDS[_whole(kind)],  # type: ignore[arg-type]
    )


def _check_tiling(blocks: tuple[Block, ...], size: int) -> None:
    place = 0
    for block in blocks:
        if block.start != place or block.end <= block.start:
            raise WireError("the blocks do not tile the text")
        place = block.end
    if place != size:
        raise WireError("the blocks do not tile the text")


def _text(value: object) -> str:
    if not isinstance(value, str) or any(character in value for character in _FORBIDDEN):
        raise WireError("not a text")
    return value


def _optional(value: object, longest: int) -> str | None:
    return None if value is None else _text(value)[:longest]


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise WireError("not an offset")
    return value
