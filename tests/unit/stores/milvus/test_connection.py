"""The threads of a connection, with a client that needs no server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rag.core.errors import CapacityError, StoreError
from stores.milvus import connection as module
from stores.milvus.connection import Connection, open_connection
from stores.milvus.options import Options

TIMEOUT = 0.3


class Client:
    """Answers with the version once it is up."""

    up = threading.Event()
    made = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        type(self).made += 1
        if not self.up.wait(1.0):
            raise OSError("nobody is there")

    def get_server_version(self, **options: Any) -> str:
        return "v2.3.5"

    def close(self) -> None:
        pass


@pytest.fixture
async def connection(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connection]:
    monkeypatch.setattr(module, "MilvusClient", Client)
    monkeypatch.setattr(Client, "made", 0)
    Client.up.set()
    async with open_connection("http://127.0.0.1:9", Options(connections=1, timeout=TIMEOUT)) as connection:
        yield connection


async def test_a_cancelled_read_keeps_its_thread_until_the_thread_has_ended(connection: Connection) -> None:
    begun, end = threading.Event(), threading.Event()

    def work(calls: object) -> bool:
        begun.set()
        return end.wait(10)

    reading = asyncio.create_task(connection.read(work))
    await asyncio.to_thread(begun.wait)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    with pytest.raises(CapacityError):
        await connection.read(lambda _: None)
    end.set()

    assert await connection.read(lambda _: "free") == "free"


async def test_no_more_calls_wait_than_there_is_room_for(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAITING_PER_CONNECTION", 2)
    end = threading.Event()
    await connection.ready()

    reads = [asyncio.create_task(connection.read(lambda _: end.wait(10))) for _ in range(4)]
    done, _ = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
    end.set()
    outcomes = await asyncio.gather(*reads, return_exceptions=True)

    assert len(done) == 1
    assert [type(outcome) for outcome in outcomes] == [bool, bool, bool, CapacityError]


async def test_a_server_is_called_from_the_start_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MilvusClient", Client)
    monkeypatch.setattr(Client, "made", 0)
    Client.up.clear()

    async with open_connection("http://127.0.0.1:9", Options(timeout=TIMEOUT)) as connection:
        waiting = [asyncio.create_task(connection.ready()) for _ in range(3)]
        assert connection.engine is None
        Client.up.set()
        engines = await asyncio.gather(*waiting)

        assert {engine.version for engine in engines} == {(2, 3, 5)}
        assert Client.made == 1


async def test_a_server_that_is_not_there_is_an_error_to_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*args: Any, **options: Any) -> None:
        raise OSError("nobody is there")

    monkeypatch.setattr(module, "MilvusClient", absent)

    async with open_connection("http://127.0.0.1:9", Options(timeout=TIMEOUT)) as connection:
        outcomes = await asyncio.gather(*(connection.ready() for _ in range(3)), return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [StoreError] * 3
