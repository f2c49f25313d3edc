"""The client of a chat model behind an OpenAI-compatible API, such as vLLM's."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import openai
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from rag.core.answers import Delta, Message, Usage
from rag.core.errors import GenerationError
from rag.core.ports import Generator
from rag.generation.prompt import MESSAGE_TOKENS, STOP
from rag.generation.tokens import TokenCounter

logger = logging.getLogger(__name__)

_READ_TIMEOUT = 60.0
_PING_TIMEOUT = 2.0
_BROKEN = frozenset({"RemoteProtocolError", "ReadError", "WriteError"})
"""What a pooled connection that the backend had closed ends in; the SDK's transport differs by release."""
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500


@asynccontextmanager
async def open_generator(
    urls: Sequence[str],
    *,
    model: str,
    api_key: str | None = None,
    languages: Iterable[str] = ("*",),
    context_tokens: int = 2048,
    connect_timeout: float = 2.0,
    tokenizer_folder: Path | None = None,
) -> AsyncIterator[Generator]:
    """A generator over one or more base URLs (with or without ``/v1``), the preferred one first.

    Nothing is contacted until it is used. When a URL cannot be reached, answers 5xx or 429, or breaks off
    before its first token, the next one is tried; the one that worked is tried first from then on.
    """
    timeout = openai.Timeout(_READ_TIMEOUT, connect=connect_timeout)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                openai.AsyncOpenAI(base_url=_base(url), api_key=api_key or "none", timeout=timeout, max_retries=0)
            )
            for url in urls
        ]
        yield ChatGenerator(
            clients=clients,
            model=model,
            languages=frozenset(languages),
            context_tokens=context_tokens,
            counter=TokenCounter(tokenizer_folder),
        )


def _base(url: str) -> str:
    bare = url.rstrip("/")
    return bare if bare.endswith("/v1") else f"{bare}/v1"


class _BackendError(Exception):
    """One backend failed before its first token, in a way that another one may not."""


@dataclass(slots=True, kw_only=True)
class ChatGenerator:
    """A :class:`~rag.core.ports.Generator` over ``openai`` clients, one a URL; retries are its own."""

    clients: Sequence[openai.AsyncOpenAI]
    model: str
    languages: frozenset[str]
    context_tokens: int
    counter: TokenCounter
    _preferred: int = 0

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, never too few."""
        return await self.counter.count(texts)

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, temperature: float
    ) -> AsyncGenerator[Delta, None]:
        """The completion as it is written; closing the iterator closes the connection, so the backend stops.

        ``max_tokens`` is lowered to what the context leaves. Raises ``GenerationError``.
        """
        body = await self._body(messages, max_tokens=max_tokens, temperature=temperature)
        faults = []
        for place in self._order():
            try:
                async with aclosing(_complete(self.clients[place], body)) as deltas:
                    async for delta in deltas:
                        self._preferred = place
                        yield delta
            except _BackendError as error:
                faults.append(str(error))
                logger.warning("generator backend failed", extra={"action": "failover", "backend": place})
            else:
                return
        raise GenerationError("; ".join(faults) or "no generator is configured")

    async def ping(self) -> None:
        """Raises ``GenerationError`` when no backend answers."""
        faults = []
        for place in self._order():
            try:
                await self.clients[place].models.list(timeout=_PING_TIMEOUT)
            except Exception as error:  # noqa: BLE001  see _complete
                faults.append(_fault(error))
            else:
                return
        raise GenerationError("; ".join(faults) or "no generator is configured")

    def _order(self) -> list[int]:
        places = range(len(self.clients))
        return sorted(places, key=lambda place: (place != self._preferred, place))

    async def _body(self, messages: Sequence[Message], *, max_tokens: int, temperature: float) -> dict[str, Any]:
        if not messages:
            raise GenerationError("a completion needs a message")
        counts = await self.count_tokens([message.content for message in messages])
        room = self.context_tokens - sum(counts) - MESSAGE_TOKENS * len(messages)
        return {
            "model": self.model,
            "messages": [_wire(message) for message in messages],
            "max_tokens": max(1, min(max_tokens, room)),
            "temperature": temperature if math.isfinite(temperature) else 0.0,
            "stop": list(STOP),
            "stream_options": {"include_usage": True},
        }


def _wire(message: Message) -> ChatCompletionMessageParam:
    content = message.content
    if message.role == "system":
        return {"role": "system", "content": content}
    return {"role": "user", "content": content} if message.role == "user" else {"role": "assistant", "content": content}


async def _complete(client: openai.AsyncOpenAI, body: dict[str, Any]) -> AsyncGenerator[Delta, None]:
    """One backend's completion; ``_BackendError`` before the first token, ``GenerationError`` after it."""
    begun = False
    try:
        async with await _begin(client, body) as chunks:
            async for delta in _deltas(chunks):
                begun = begun or bool(delta.text)
                yield delta
    except Exception as error:
        # The SDK lets the errors of its transport and of its JSON reader through, and which ones differs by release.
        if begun or not _may_differ(error):
            raise GenerationError(f"the generator failed: {_fault(error)}") from error
        raise _BackendError(_fault(error)) from error
    if not begun:
        raise _BackendError("the completion was empty")


async def _begin(client: openai.AsyncOpenAI, body: dict[str, Any]) -> openai.AsyncStream[ChatCompletionChunk]:
    """The response's head; asked for again where the connection was one that the backend had just closed."""
    create = partial(client.chat.completions.create, stream=True, **body)
    try:
        begun = await create()
    except openai.APIConnectionError as error:
        if type(error.__cause__).__name__ not in _BROKEN:
            raise
        begun = await create()
    return cast("openai.AsyncStream[ChatCompletionChunk]", begun)


async def _deltas(chunks: AsyncIterator[ChatCompletionChunk]) -> AsyncIterator[Delta]:
    """Text as it comes, held back while it is empty; the end, with its usage, as one last delta."""
    reason: str | None = None
    usage: Usage | None = None
    async for chunk in chunks:
        usage = _usage(chunk) or usage
        for choice in chunk.choices[:1]:
            reason = choice.finish_reason or reason
            if choice.delta.content:
                yield Delta(text=choice.delta.content)
    if reason is None:
        raise ConnectionError("the completion broke off")
    yield Delta(text="", finish_reason=reason, usage=usage)


def _usage(chunk: ChatCompletionChunk) -> Usage | None:
    if chunk.usage is None:
        return None
    return Usage(prompt_tokens=chunk.usage.prompt_tokens, completion_tokens=chunk.usage.completion_tokens)


def _may_differ(error: Exception) -> bool:
    """Whether another backend may take what this one did not; a 4xx is the request's own fault."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code >= _SERVER_ERROR or error.status_code == _TOO_MANY_REQUESTS
    return True


def _fault(error: Exception) -> str:
    """What went wrong, without what the backend said: that may repeat the prompt."""
    if isinstance(error, openai.APIStatusError):
        return f"HTTP {error.status_code}"
    return type(error).__name__
