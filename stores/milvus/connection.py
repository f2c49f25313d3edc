"""One client, connected when it is first needed, whose blocking calls run in a bounded number of threads.

The asynchronous client of pymilvus packs its requests on the event loop, which a large batch would stop for
seconds, and cannot create an index on Milvus Lite; the blocking one is sound on every engine.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from pymilvus import MilvusClient

from rag.core.errors import AnchorageError, CapacityError
from rag.ownership.backoff import Backoff
from stores.milvus.calls import Calls, loaded_first
from stores.milvus.consistency import Consistency
from stores.milvus.engine import Engine, engine_of
from stores.milvus.errors import store_errors
from stores.milvus.options import Options

Result = TypeVar("Result")
Work = Callable[[Calls], Result]

_PING_SECONDS = 2.0
_WAITING_PER_CONNECTION = 64
"""Calls that may wait for each thread."""
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0

_logger = logging.getLogger(__name__)


class Connection:
    """Runs blocking work on the client, and raises the port's errors."""

    def __init__(self, uri: str, options: Options, threads: ThreadPoolExecutor) -> None:
        self._uri = uri
        self._options = options
        self._threads = threads
        self._free = asyncio.Semaphore(options.connections)
        self._waiting = 0
        self._attempt: asyncio.Task[None] | None = None
        self._client: MilvusClient | None = None
        self._consistency = Consistency(replicas=options.replicas)
        self.engine: Engine | None = None

    async def read(self, work: Work[Result], collection: str | None = None) -> Result:
        """The result of ``work``; a cancelled caller leaves at once."""
        return await self._run(work, collection, stop=threading.Event())

    async def write(self, work: Work[Result], collection: str) -> Result:
        """The result of ``work``; a cancelled caller leaves when the request on its way has ended.

        What he does next is then not overtaken by what he gave up.
        """
        stop = threading.Event()
        self._consistency.wrote(collection)
        running = asyncio.ensure_future(self._run(work, collection, stop=stop))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait({running})
            if not running.cancelled():
                running.exception()
            raise
        finally:
            self._consistency.wrote(collection)

    async def ready(self) -> Engine:
        """The engine, connected to; raises ``StoreError``. Those who come while it is called share one attempt."""
        if self.engine is None:
            if self._attempt is None or self._attempt.done():
                self._attempt = asyncio.create_task(self._connect(), name="connecting to milvus")
            await asyncio.wait({self._attempt})
            self._attempt.result()
        assert self.engine is not None  # noqa: S101  for the type checker
        return self.engine

    async def keep_calling(self) -> None:
        """Connect, however long the engine takes to come up."""
        backoff = Backoff(first=_FIRST_PAUSE, longest=_LONGEST_PAUSE)
        while self.engine is None:
            try:
                await self.ready()
            except AnchorageError as exc:
                _logger.debug("no answer from Milvus yet: %s", exc.code, extra={"action": "milvus_absent"})
                await asyncio.sleep(backoff.died())

    async def ping(self) -> None:
        """Raises ``StoreError`` when the engine does not answer."""
        await self.ready()
        await self._run(Calls.version, None, stop=threading.Event(), timeout=min(_PING_SECONDS, self._options.timeout))

    async def close(self) -> None:
        """Let the calls on their way end, and disconnect."""
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait({self._attempt})
            if not self._attempt.cancelled():
                self._attempt.exception()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        if self._client is not None:
            await asyncio.to_thread(self._client.close)

    async def _run(
        self, work: Work[Result], collection: str | None, *, stop: threading.Event, timeout: float | None = None
    ) -> Result:
        engine = await self.ready()
        assert self._client is not None  # noqa: S101  for the type checker
        level = self._consistency.level(collection)
        calls = Calls(self._client, engine, timeout=timeout or self._options.timeout, level=level, stop=stop)

        def guarded() -> Result:
            with store_errors(collection):
                if collection is None:
                    return work(calls)
                return loaded_first(calls, collection, work, replicas=self._options.replicas)

        return await self._in_thread(guarded, stop)

    async def _in_thread(self, work: Callable[[], Result], stop: threading.Event) -> Result:
        """The result of ``work``; its thread is taken until it has ended, whether or not someone waits for it."""
        await self._acquire()
        running = self._threads.submit(work)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            stop.set()
            raise
        finally:
            if running.done():
                self._free.release()
            else:
                loop = asyncio.get_running_loop()
                running.add_done_callback(lambda _: loop.call_soon_threadsafe(self._free.release))

    async def _acquire(self) -> None:
        busy = CapacityError("all connections to Milvus are busy")
        if self._waiting >= _WAITING_PER_CONNECTION * self._options.connections:
            raise busy
        self._waiting += 1
        try:
            async with asyncio.timeout(self._options.timeout):
                await self._free.acquire()
        except TimeoutError:
            raise busy from None
        finally:
            self._waiting -= 1

    async def _connect(self) -> None:
        def connect() -> tuple[MilvusClient, Engine]:
            with store_errors():
                options = self._options
                client = MilvusClient(
                    self._uri, token=options.token, db_name=options.database, timeout=options.timeout, dedicated=True
                )
                return client, engine_of(str(client.get_server_version(timeout=options.timeout)))

        self._client, self.engine = await self._in_thread(connect, threading.Event())


@asynccontextmanager
async def open_connection(uri: str, options: Options) -> AsyncIterator[Connection]:
    """A connection to ``uri``; the server may come up later than this, and go and come back."""
    # It logs each failed request with what was sent, before it raises the error that is ours to tell.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    threads = ThreadPoolExecutor(options.connections, thread_name_prefix="milvus")
    connection = Connection(uri, options, threads)
    calling = asyncio.create_task(connection.keep_calling(), name="calling milvus")
    try:
        yield connection
    finally:
        calling.cancel()
        await asyncio.wait({calling})
        await connection.close()
