"""Contextual headers: chunks are indexed below the title and the section that they stand in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from rag.core.ports import Chunker, Tokenizer
from rag.core.types import Chunk, ParsedDocument

HEADER_TOKENS = 48
"""The most tokens of a header; what is beyond is cut off."""

SEPARATOR = " › "


class HeadedChunker:
    """Implements ``Chunker``: the chunks of another one, with their headers. Text and offsets stay as they were.

    A header is ``title › section › …`` of at most ``header_tokens``; the other chunker must leave room for it.
    """

    def __init__(self, chunker: Chunker, tokenizer: Tokenizer, *, header_tokens: int = HEADER_TOKENS) -> None:
        self._chunker = chunker
        self._tokenizer = tokenizer
        self._most = header_tokens

    async def chunk(self, document: ParsedDocument) -> list[Chunk]:
        """Chunks as the other chunker gives them. Raises what it raises."""
        chunks = await self._chunker.chunk(document)
        return await asyncio.to_thread(self._headed, document.title, chunks)

    def _headed(self, title: str | None, chunks: Sequence[Chunk]) -> list[Chunk]:
        sections = list(dict.fromkeys(chunk.headings for chunk in chunks))
        headers = [_joined(title, headings) for headings in sections]
        counted = self._tokenizer.spans(headers)
        bounded = {
            section: header if len(spans) <= self._most else header[: int(spans[self._most - 1][1])].rstrip()
            for section, header, spans in zip(sections, headers, counted, strict=True)
        }
        return [replace(chunk, header=bounded[chunk.headings]) for chunk in chunks]


def _joined(title: str | None, headings: Sequence[str]) -> str:
    """Title and headings, the title once where it is the first heading too."""
    path = [title, *headings] if title and title not in headings[:1] else [*headings]
    return SEPARATOR.join(path)
