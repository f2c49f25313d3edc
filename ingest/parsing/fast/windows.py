"""The beginning and the end of a long text, decoded without reading what lies between."""

from __future__ import annotations

import codecs

from ingest.parsing.encodings import Decoded, decode_plain, sample_of
from rag.core.media import HEAD_BYTES, wide_encoding

_WIDTH = 4
"""No encoding's unit is wider, in bytes."""
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_MARKED = frozenset({"utf-16", "utf-32"})
"""Their byte order is told by a mark at the beginning only."""


def head(content: bytes, size: int) -> Decoded:
    """The first ``size`` bytes as text; a character that is cut at the end is left out.

    Raises ``ParseError``: ``undecodable``, ``malformed``.
    """
    if len(content) <= size:
        return decode_plain(content)
    wide = _wide_encoding(content)
    if wide is not None and (text := _cut(content[:size], wide)) is not None:
        return Decoded(text, wide)
    found = decode_plain(sample_of(content))
    return Decoded(_cut(content[:size], found.encoding) or found.text, found.encoding)


def tail(content: bytes, size: int, encoding: str) -> str:
    """The last ``size`` bytes from the first whole line on; empty where they cannot be read by themselves."""
    if len(content) <= size or encoding in _MARKED:
        return ""
    start = (len(content) - size) // _WIDTH * _WIDTH
    last = content[start:]
    if not encoding.startswith(("utf-16", "utf-32")):
        last = last[last.find(b"\n") + 1 :]
    text = _cut(last, encoding) or ""
    return text[text.find("\n") + 1 :] if encoding.startswith("utf-") else text


def _wide_encoding(content: bytes) -> str | None:
    """The encoding of units wider than a byte, by its mark or its bytes: it cannot be cut at a byte of its own."""
    marked = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    return marked or wide_encoding(content[:HEAD_BYTES])


def _cut(content: bytes, encoding: str) -> str | None:
    decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)()
    try:
        return decoder.decode(content)
    except UnicodeDecodeError:
        return None
