"""Fakes of the ports, for tests of whoever builds on them: deterministic, scripted, without a model or a clock."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Literal, Never

import numpy as np
from numpy.typing import NDArray

from rag.core.answers import Delta, Message, Usage
from rag.core.records import Hit
from rag.core.types import EVERY_LANGUAGE, Priority, Vectors

_WORD = re.compile(r"\w")


class ManualClock:
    """A clock that moves when told to; call it for the time in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move forward."""
        self.now += seconds


class Unavailable:
    """Stands for any port that is down: each of its calls raises ``error``, or never returns without one."""

    kind = "unavailable"

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Never]]:
        """Every method there could be."""

        async def call(*_: object, **__: object) -> Never:
            if self._error is not None:
                raise self._error
            while True:
                await asyncio.Event().wait()

        return call


class FakeEmbedder:
    """Maps texts that share characters to near vectors; ``error`` is raised instead while it is set.

    ``calls`` holds what was asked: the texts, the kind and the priority.
    """

    def __init__(self, *, dimension: int = 16, model: str = "fake-embedder") -> None:
        self.model = model
        self.dimension = dimension
        self.ready = True
        self.error: Exception | None = None
        self.calls: list[tuple[tuple[str, ...], str, Priority]] = []

    async def embed(
        self,
        texts: Sequence[str],
        *,
        kind: Literal["query", "document"],
        priority: Priority = Priority.INTERACTIVE,
    ) -> Vectors:
        """One normalised vector a text: hashed counts of its letters and digits."""
        self.calls.append((tuple(texts), kind, priority))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return np.array([self._vector(text) for text in texts], dtype=np.float32).reshape(-1, self.dimension)

    def _vector(self, text: str) -> NDArray[np.float32]:
        vector = np.zeros(self.dimension, dtype=np.float32)
        for character in _WORD.findall(text.casefold()) or ["\0"]:
            vector[zlib.crc32(character.encode()) % self.dimension] += 1.0
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


class FakeReranker:
    """Puts hits that hold more of the query's characters first; ``error`` is raised instead while it is set."""

    def __init__(self, *, languages: frozenset[str] = frozenset({EVERY_LANGUAGE})) -> None:
        self.languages = languages
        self.error: Exception | None = None
        self.calls: list[tuple[str, tuple[Hit, ...]]] = []

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """The same hits, best first, with their share of the query's characters as the score."""
        self.calls.append((query, tuple(hits)))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        scored = [replace(hit, score=share, rerank_score=share) for hit in hits for share in [_share(query, hit.text)]]
        return sorted(scored, key=lambda hit: (-hit.score, hit.id))


def _share(query: str, text: str) -> float:
    wanted = set(_WORD.findall(query.casefold()))
    return len(wanted & set(_WORD.findall(text.casefold()))) / max(1, len(wanted))


class FakeGenerator:
    """Speaks a script, one delta an entry; a token is a character.

    ``gate`` holds the stream before its last entry until it is set. ``started`` is set by the first delta,
    ``cancelled`` when a stream is closed or cancelled before its end. ``error`` is raised instead of a delta
    while it is set. ``prompts`` holds the messages of each call.
    """

    def __init__(
        self,
        script: Sequence[str] = ("An answer", " [1]", "."),
        *,
        model: str = "fake-generator",
        languages: frozenset[str] = frozenset({EVERY_LANGUAGE}),
        context_tokens: int = 32_768,
    ) -> None:
        self.script = tuple(script)
        self.model = model
        self.languages = languages
        self.context_tokens = context_tokens
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.prompts: list[tuple[Message, ...]] = []

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Characters of each text."""
        return [len(text) for text in texts]

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, temperature: float
    ) -> AsyncGenerator[Delta, None]:
        """The script; its last delta carries the finish reason and the usage."""
        del max_tokens, temperature
        self.prompts.append(tuple(messages))
        finished = False
        try:
            for index, text in enumerate(self.script):
                await self._pace(last=index == len(self.script) - 1)
                self.started.set()
                yield Delta(text=text)
            usage = Usage(prompt_tokens=_length(messages), completion_tokens=sum(map(len, self.script)))
            yield Delta(text="", finish_reason="stop", usage=usage)
            finished = True
        finally:
            if not finished:
                self.cancelled.set()

    async def _pace(self, *, last: bool) -> None:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        if last and self.gate is not None:
            await self.gate.wait()

    async def ping(self) -> None:
        """Raises ``error`` while it is set."""
        if self.error is not None:
            raise self.error


def _length(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)
