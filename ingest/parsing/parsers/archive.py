"""Opens zip packages within limits that count what is really inflated, not what the directory claims."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Mapping

from rag.core.errors import ParseError

MAX_ENTRIES = 10_000
MAX_ENTRY_BYTES = 256 * 2**20
MAX_TOTAL_BYTES = 512 * 2**20
MAX_RATIO = 200
_RATIO_FREE_BYTES = 4 * 2**20
_STEP = 2**20
_DOCTYPE = re.compile(rb"<!DOCTYPE", re.IGNORECASE)
_PROLOGUE_BYTES = 65_536


class Package:
    """A zip of XML parts. Every read is counted against the limits of the whole package."""

    def __init__(self, content: bytes) -> None:
        """Raises ``ParseError``: ``malformed``, ``archive_too_large``."""
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            raise ParseError("the file is not a readable package", code="malformed") from error
        self._inflated = 0
        self._infos: Mapping[str, zipfile.ZipInfo] = {info.filename: info for info in self._zip.infolist()}
        if len(self._infos) > MAX_ENTRIES:
            raise ParseError("the package has too many parts", code="archive_too_large")

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def read(self, name: str) -> bytes:
        """One part. Raises ``ParseError``: ``malformed``, ``encrypted``, ``archive_too_large``."""
        info = self._infos.get(name)
        if info is None:
            raise ParseError(f"the package has no part {name}", code="malformed")
        if info.flag_bits & 0x1:
            raise ParseError("the package is encrypted", code="encrypted")
        pieces = []
        size = 0
        try:
            with self._zip.open(info) as part:
                while piece := part.read(_STEP):
                    size += len(piece)
                    self._count(len(piece), size, info.compress_size)
                    pieces.append(piece)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
            raise ParseError(f"the part {name} is damaged", code="malformed") from error
        return b"".join(pieces)

    def read_xml(self, name: str) -> bytes:
        """One XML part; a document type declaration is refused as ``malformed``."""
        content = self.read(name)
        if _DOCTYPE.search(content[:_PROLOGUE_BYTES]) or _DOCTYPE.search(content[:_PROLOGUE_BYTES].replace(b"\0", b"")):
            raise ParseError(f"the part {name} declares a document type", code="malformed")
        return content

    def _count(self, step: int, size: int, compressed: int) -> None:
        self._inflated += step
        inflates_too_much = size > _RATIO_FREE_BYTES and size > MAX_RATIO * max(compressed, 1)
        if inflates_too_much or size > MAX_ENTRY_BYTES or self._inflated > MAX_TOTAL_BYTES:
            raise ParseError("the package inflates beyond the limits", code="archive_too_large")
