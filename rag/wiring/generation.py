"""The chat model, wherever it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rag.core.errors import AnchorageError
from rag.core.ports import Generator
from rag.generation import open_generator
from rag.generation.interpreter import find_interpreter
from rag.models import resolve
from rag.settings import Settings

_logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_generator_for(settings: Settings) -> AsyncIterator[Generator | None]:
    """The configured generator, or ``None`` where none is to be had: answers are extractive then."""
    generation = settings.generation
    urls = [url for url in (_generator_url(settings), generation.fallback_url) if url]
    if not urls:
        yield None
        return
    async with open_generator(
        urls,
        model=generation.model,
        api_key=generation.api_key.get_secret_value() if generation.api_key else None,
        languages=generation.languages,
        context_tokens=generation.context_tokens,
        connect_timeout=generation.connect_timeout,
        tokenizer_folder=await asyncio.to_thread(_tokenizer_folder, settings),
    ) as generator:
        yield generator


def _generator_url(settings: Settings) -> str | None:
    """The configured address, else that of the vLLM which is run beside the service where it is installed."""
    generation = settings.generation
    if generation.url or not (generation.managed and find_interpreter(generation.vllm_python)):
        return generation.url
    return f"http://127.0.0.1:{generation.vllm_port}/v1"


def _tokenizer_folder(settings: Settings) -> Path | None:
    """Where the generator's tokenizer lies; without one its tokens are overcounted."""
    try:
        folder = Path(resolve(settings.generation.model, models_dir=settings.models_folder, report=_logger.info))
    except AnchorageError:
        _logger.warning("no tokenizer of the generator", extra={"action": "tokenizer_missing"})
        return None
    return folder if folder.is_dir() else None
