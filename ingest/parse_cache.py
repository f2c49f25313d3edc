"""Degraded results of equal bytes: taken again while they are young, instead of the time that they cost."""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from rag.core.catalog import Attempt, BlobRef
from rag.core.errors import ParseError
from rag.core.types import Block, ParseAttempt, ParsedDocument, Quality, Scope

_logger = logging.getLogger(__name__)

PARSER = "cache"
EMPTY_CODES = frozenset({"empty_output", "no_text"})
"""Codes of a document that was read and held nothing."""

_FASTEST = 1
_TIERS: Mapping[Quality, int] = {Quality.SUMMARY: 2, Quality.FRAGMENT: 3}


class ResultCatalog(Protocol):
    """The slice of the catalog that keeps parse results, as bytes."""

    async def keep_result(self, scope: Scope, blob: BlobRef, media_type: str, result: bytes, *, ttl: float) -> None:
        """Keep a result for ``ttl`` seconds."""
        ...

    async def kept_result(self, scope: Scope, blob: BlobRef, media_type: str) -> bytes | None:
        """The result that was kept and has not expired."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTimes:
    """How long results are kept, in seconds; ``empty`` is for bytes that parsed to nothing."""

    summary: float
    fragment: float
    empty: float

    def of(self, parsed: ParsedDocument) -> float:
        """The time of a result; 0 for a full one, which is not kept."""
        if parsed.quality is Quality.SUMMARY:
            return self.summary
        if parsed.quality is Quality.FRAGMENT:
            return self.fragment
        return 0.0 if parsed.text.strip() else self.empty


class ParseCache:
    """Keeps what is degraded or empty, by tenant, bytes and media type."""

    def __init__(self, catalog: ResultCatalog, times: ResultTimes) -> None:
        self._catalog = catalog
        self._times = times

    async def recall(self, attempt: Attempt) -> ParsedDocument | None:
        """The kept result, unless the attempt asks for a fresh one.

        Raises ``ParseError`` with the code that was kept for bytes that held nothing.
        """
        if attempt.fresh:
            return None
        kept = await self._catalog.kept_result(attempt.scope, attempt.blob, attempt.media_type)
        try:
            return None if kept is None else await asyncio.to_thread(_read, kept)
        except (KeyError, TypeError, ValueError, zlib.error):
            # Another version kept it; the bytes are there to be parsed.
            _logger.warning("a kept result cannot be read", extra={"action": "parse_result_unreadable"})
            return None

    async def keep(self, attempt: Attempt, parsed: ParsedDocument) -> None:
        """Keep what is not full."""
        ttl = self._times.of(parsed)
        if ttl > 0:
            result = await asyncio.to_thread(_dump, parsed)
            await self._catalog.keep_result(attempt.scope, attempt.blob, attempt.media_type, result, ttl=ttl)

    async def keep_failure(self, attempt: Attempt, error: ParseError) -> None:
        """Keep that the bytes hold nothing; other failures are tried again."""
        if error.reason in EMPTY_CODES:
            result = _pack({"code": error.reason, "message": error.message})
            ttl = self._times.empty
            await self._catalog.keep_result(attempt.scope, attempt.blob, attempt.media_type, result, ttl=ttl)


def _pack(value: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(value).encode(), 1)


def _dump(parsed: ParsedDocument) -> bytes:
    return _pack(asdict(parsed) | {"attempts": []})


def _read(result: bytes) -> ParsedDocument:
    value = json.loads(zlib.decompress(result))
    if "code" in value:
        raise ParseError(value["message"], code=value["code"])
    quality = Quality(value["quality"])
    blocks = tuple(Block(**each | {"headings": tuple(each["headings"])}) for each in value["blocks"])
    taken = ParseAttempt(
        parser=PARSER, tier=_TIERS.get(quality, _FASTEST), seconds=0.0, outcome="ok", code=value["fault"]
    )
    return ParsedDocument(**value | {"quality": quality, "blocks": blocks, "attempts": (taken,)})
