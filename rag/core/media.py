"""Which formats are understood, and how the format of an upload is told from its name, declaration and bytes.

The bytes decide where they can (a PDF named ``.txt`` is a PDF). Otherwise a specific declaration wins over
the file name's extension, and the extension over a vague declaration such as ``text/plain``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from rag.core.errors import UnsupportedMediaTypeError

PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
HTML = "text/html"
MARKDOWN = "text/markdown"
TEXT = "text/plain"
CSV = "text/csv"

SUPPORTED: Mapping[str, tuple[str, ...]] = {
    PDF: (".pdf",),
    DOCX: (".docx", ".docm"),
    HTML: (".html", ".htm", ".xhtml"),
    MARKDOWN: (".md", ".markdown", ".mdown", ".mkd"),
    TEXT: (".txt", ".text", ".log", ".asc"),
    CSV: (".csv", ".tsv", ".tab"),
}
"""Media type to file name extensions."""

FORMATS: Mapping[str, str] = {
    PDF: "pdf",
    DOCX: "docx",
    HTML: "html",
    MARKDOWN: "markdown",
    TEXT: "text",
    CSV: "csv",
}
"""Media type to the short name of its format, for metrics and messages."""

HEAD_BYTES = 4096
"""How many first bytes :func:`detect` wants to see; fewer are fine."""

_BY_EXTENSION = {extension: media for media, extensions in SUPPORTED.items() for extension in extensions}
_ALIASES = {
    "application/x-pdf": PDF,
    "application/xhtml+xml": HTML,
    "text/x-markdown": MARKDOWN,
    "text/md": MARKDOWN,
    "application/csv": CSV,
    "text/x-csv": CSV,
    "text/tab-separated-values": CSV,
}
_PLAIN = frozenset({MARKDOWN, TEXT, CSV})
_TEXTUAL = _PLAIN | {HTML}
_EXTENSION = re.compile(r"\.[a-z][a-z0-9]{0,9}$")
_HTML_START = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html[\s>])", re.IGNORECASE | re.DOTALL
)
_FOREIGN = (
    b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\x00", b"MM\x00*", b"\x1f\x8b", b"BZh",
    b"\xfd7zXZ\x00", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x7fELF", b"MZ\x90", b"OggS", b"ID3", b"fLaC",
    b"{\\rtf", b"SQLite format 3\x00", b"\x28\xb5\x2f\xfd", b"%!PS",
)  # fmt: skip
_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r\x0b\x0c\x1b") + b"\x7f"
_NAMED_TEXT_CONTROLS = 0.10
_UNNAMED_TEXT_CONTROLS = 0.005
_WIDE_SHARE = 0.05
_STRAY_SHARE = 0.8
_LAST_PLANE = 0x10
_EVERYDAY = re.compile(
    "[\t\n\r -~\u00a0-\u00ff\u2010-\u2027\u2030-\u205e\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff00-\uffef]"
)
_EVERYDAY_SHARE = 0.95


def detect(source: str, head: bytes, declared: str | None) -> str:
    """The media type of an upload named ``source`` that begins with ``head``.

    ``declared`` is the sender's content type, parameters allowed. Raises ``UnsupportedMediaTypeError``
    naming what is supported.
    """
    extension = _extension(source)
    named = _BY_EXTENSION.get(extension)
    stated = _stated(declared)
    expected = stated if stated not in (None, TEXT) else named or stated
    found = _by_magic(head, expected)
    if found is not None:
        return found
    if (expected is None or expected in _PLAIN) and _holds_nul(head):
        raise _unsupported(source)
    if expected is not None and (expected not in _TEXTUAL or is_text(head, tolerance=_NAMED_TEXT_CONTROLS)):
        return expected
    if expected is None and extension == "" and head and is_text(head, tolerance=_UNNAMED_TEXT_CONTROLS):
        return TEXT
    raise _unsupported(source)


def is_text(head: bytes, *, tolerance: float) -> bool:
    """Whether the bytes can be text in some encoding: at most the share ``tolerance`` are control characters."""
    if _is_wide(head) or head.startswith(codecs.BOM_UTF8):
        return True
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls <= tolerance * len(head)


def _holds_nul(head: bytes) -> bool:
    """Whether a NUL byte stands in it that is no half of a wide character."""
    return b"\x00" in head and not _is_wide(head)


def _is_wide(head: bytes) -> bool:
    return head.startswith(_WIDE_MARKS) or wide_encoding(head) is not None


def wide_encoding(head: bytes) -> str | None:
    """UTF-32 or UTF-16 without a byte order mark, told by its controls and characters; ``None`` if it is neither.

    Wide text of some length has NUL or another control among its bytes, which narrow text has not.
    """
    if len(head) == len(head.translate(None, _CONTROLS)) or _is_narrow(head):
        return None
    return next((encoding for encoding in _wide_candidates(head) if _plausible(head, encoding)), None)


def _is_narrow(head: bytes) -> bool:
    """Whether it reads as UTF-8 with stray NUL characters; wide text would have more of them or other controls."""
    nuls = head.count(0)
    if nuls and (nuls >= _STRAY_SHARE * len(head) / 2 or len(head) - len(head.translate(None, _CONTROLS)) > nuls):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _wide_candidates(head: bytes) -> list[str]:
    candidates = []
    quads = [head[offset : len(head) // 4 * 4 : 4] for offset in range(4)]
    if all(quads):
        if not any(quads[3]) and max(quads[2]) <= _LAST_PLANE:
            candidates.append("utf-32-le")
        if not any(quads[0]) and max(quads[1]) <= _LAST_PLANE:
            candidates.append("utf-32-be")
    readings = {encoding: _everyday_share(head, encoding) for encoding in ("utf-16-le", "utf-16-be")}
    best = max(readings, key=lambda encoding: readings[encoding])
    if readings[best] >= _EVERYDAY_SHARE:
        candidates.append(best)
    even, odd = head[0::2].count(0), head[1::2].count(0)
    enough = _WIDE_SHARE * len(head) / 2
    if even == 0 and odd >= enough:
        candidates.append("utf-16-le")
    if odd == 0 and even >= enough:
        candidates.append("utf-16-be")
    return candidates


def _everyday_share(head: bytes, encoding: str) -> float:
    """The share of East Asian and Western characters; read in the other byte order, half of a text is none."""
    text = head[: len(head) // 2 * 2].decode(encoding, "replace")
    return len(_EVERYDAY.findall(text)) / len(text) if text else 0.0


def _plausible(head: bytes, encoding: str) -> bool:
    text = head[: len(head) // 4 * 4 or len(head)].decode(encoding, "replace")
    odd = sum(not (each.isprintable() or each.isspace()) or each == "\ufffd" for each in text)
    return odd <= 0.02 * len(text) + 1


def _extension(source: str) -> str:
    found = _EXTENSION.search(PurePosixPath(source.replace("\\", "/")).name.lower())
    return found.group() if found else ""


def _stated(declared: str | None) -> str | None:
    essence = (declared or "").partition(";")[0].strip().lower()
    stated = _ALIASES.get(essence, essence)
    return stated if stated in SUPPORTED else None


def _by_magic(head: bytes, expected: str | None) -> str | None:
    if head.startswith(b"%PDF-") or (expected == PDF and b"%PDF-" in head[:1024]):
        return PDF
    if head.startswith(_ZIP):
        return _zipped(head, expected)
    if head.startswith(_OLE):
        return DOCX if expected == DOCX else _refuse()
    if head.startswith(_FOREIGN):
        _refuse()
    if expected != MARKDOWN and _HTML_START.match(head.removeprefix(b"\xef\xbb\xbf")):
        return HTML
    return None


def _zipped(head: bytes, expected: str | None) -> str:
    if b"word/" in head:
        return DOCX
    foreign = any(folder in head for folder in (b"xl/", b"ppt/", b"META-INF/", b"mimetype"))
    return DOCX if expected == DOCX and not foreign else _refuse()


def _refuse() -> str:
    raise _unsupported(None)


def _unsupported(source: str | None) -> UnsupportedMediaTypeError:
    names = ", ".join(f"{FORMATS[media]} ({' '.join(extensions)})" for media, extensions in SUPPORTED.items())
    subject = f"the format of {source[:200]!r}" if source else "this format"
    return UnsupportedMediaTypeError(f"{subject} is not supported; supported are: {names}")
