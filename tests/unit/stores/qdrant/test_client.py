"""What the client asks of a server before it relies on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from rag.core.errors import ConfigurationError, StoreError
from stores.qdrant.client import open_client
from stores.qdrant.options import ClientOptions


@asynccontextmanager
async def server(version: str) -> AsyncIterator[str]:
    """A server that answers every request with its version and an empty list of collections."""
    body = orjson.dumps({"title": "qdrant", "version": version, "result": {"collections": []}})
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(head.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("version", ["1.12.4", "v1.15.9", "0.11.0"])
async def test_a_server_that_is_too_old_is_refused_with_both_versions(version: str) -> None:
    async with server(version) as url, open_client(ClientOptions(url=url, prefer_grpc=False)) as engine:
        with pytest.raises(ConfigurationError, match=rf"{version}.*1\.16 or newer"):
            await engine.ping()


@pytest.mark.parametrize("version", ["1.16.0", "1.17.3-dev", "2.0.0", "master"])
async def test_a_server_that_is_new_enough_is_asked_for_its_version_and_used(version: str) -> None:
    async with server(version) as url, open_client(ClientOptions(url=url, prefer_grpc=False)) as engine:
        await engine.ping()


async def test_a_server_that_does_not_answer_is_an_outage_and_no_wrong_version() -> None:
    async with server("1.16.0") as url:
        pass
    async with open_client(ClientOptions(url=url, prefer_grpc=False)) as engine:
        with pytest.raises(StoreError):
            await engine.ping()
