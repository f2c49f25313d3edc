"""The service by setting alone on each kind of store: found, filtered, deleted, restarted, healed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.milvus_server import MilvusServer, running_server, server_package
from rag.catalog import open_catalog
from rag.core.errors import CollectionNotFoundError
from rag.core.ports import VectorStore
from rag.core.types import Scope
from stores.registry import open_store
from tests.acceptance.conftest import HASHING, SETTINGS, running_service
from tests.acceptance.running import COLLECTION, REPOSITORY, Service, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ENGLISH = ("A notice that is missing costs 950 euros", "arrival-notice.md")
CHINESE = ("三级信号表示台风将在十二小时内影响港区", "台风应急预案.md")
ENGINE = "engine"
SDKS = {"pgvector": "psycopg", "qdrant": "qdrant_edge", "milvus": "milvus_lite"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of store with the service that runs on it."""

    store: str
    embedded: bool
    lexical: bool
    service: Service
    server: MilvusServer | None = None


@pytest.fixture(scope="module", params=["pgvector", "qdrant", "milvus", "milvus server"])
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """A service on that kind of store with the examples in it, each marked with its year."""
    store, _, server = request.param.partition(" ")
    if store not in entry_points(group="anchorage.stores").names or find_spec(SDKS[store]) is None:
        pytest.skip(f"needs the store {store} and its extra (`pip install 'anchorage[{store}]'`)")
    settings = {"ANCHORAGE_STORE__KIND": store}
    with ExitStack() as stack:
        milvus = stack.enter_context(_milvus_server()) if server else None
        if milvus:
            settings["ANCHORAGE_STORE__OPTIONS__URI"] = milvus.uri
        service = stack.enter_context(running_service({**SETTINGS, **HASHING, **settings}))
        created = service.run("collections", "create", COLLECTION, "--field", "year:integer")
        assert created.returncode == 0, created.stderr
        report = ingest(service, str(REPOSITORY / "examples"), year=2026)
        assert {document["state"] for document in report} == {"published"}
        yield Kind(
            store=store,
            embedded=store != "pgvector" and not server,
            lexical=not server,
            service=service,
            server=milvus,
        )


def _milvus_server() -> AbstractContextManager[MilvusServer]:
    package = server_package()
    if package is None:
        pytest.skip("needs a Milvus server: the wheel of requirements/milvus-server.txt in .venv-milvus")
    return running_server(package)


def ingest(service: Service, folder: str, *, year: int) -> list[dict[str, Any]]:
    """What ingesting a folder of documents reported."""
    report = service.json("ingest", folder, "-c", COLLECTION, "--recursive", "--metadata", json.dumps({"year": year}))
    return list(report["documents"])


def search(service: Service, query: str, *, mode: str = "dense", **more: Any) -> dict[str, Any]:
    """The whole answer to a search; a service that is coming back is waited for."""

    def answer() -> dict[str, Any] | None:
        response = service.post("search", query=query, mode=mode, **more)
        assert response.status_code in {200, 503}, response.text
        return dict(response.json()) if response.status_code == 200 else None

    return until(answer, seconds=60, what=f"a search in mode {mode}")


def sources(answer: Mapping[str, Any]) -> list[str]:
    return [hit["source"] for hit in answer["hits"]]


def host(service: Service) -> psutil.Process | None:
    """The process of the embedded engine."""
    for process in psutil.Process(service.owner["pid"]).children(recursive=True):
        try:
            if str(service.data / "stores") in " ".join(process.cmdline()):
                return process
        except psutil.NoSuchProcess:
            continue
    return None


def test_the_service_says_which_store_it_runs_on(kind: Kind) -> None:
    dependencies = kind.service.readiness()["dependencies"]
    checks = {check["name"]: check for check in kind.service.json("check-config")["checks"]}

    assert dependencies["store"] == {"status": "ready", "detail": kind.store}
    assert checks["store"]["ok"]
    assert checks["store"]["message"].startswith(kind.store)
    assert ("embedded" in checks["store"]["message"]) is kind.embedded
    assert (host(kind.service) is not None) is kind.embedded


@pytest.mark.parametrize(("query", "source"), [ENGLISH, CHINESE])
@pytest.mark.parametrize("mode", ["dense", "hybrid", "lexical"])
def test_a_search_finds_the_document_and_says_what_does_not_apply(
    kind: Kind, mode: str, query: str, source: str
) -> None:
    answer = search(kind.service, query, mode=mode)

    skipped = [skip["stage"] for skip in answer["skipped"] if skip["stage"] == "lexical"]
    assert source in sources(answer)[:3]
    assert answer["degraded"] == []
    assert skipped == ([] if kind.lexical or mode == "dense" else ["lexical"])


def test_a_filter_keeps_what_passes_it(kind: Kind) -> None:
    none = search(kind.service, ENGLISH[0], filter={"type": "lt", "key": "year", "value": 2026})
    every = search(kind.service, ENGLISH[0], filter={"type": "eq", "key": "year", "value": 2026})

    assert none["hits"] == []
    assert ENGLISH[1] in sources(every)


def test_a_deleted_document_is_found_no_more(kind: Kind) -> None:
    folder = kind.service.folder / "passing"
    folder.mkdir()
    (folder / "wombat.txt").write_text("The wombat sleeps under the harbour office.", encoding="utf-8")
    ingest(kind.service, str(folder), year=2020)
    before = sources(search(kind.service, "The wombat sleeps"))
    (deleted,) = [document for source, document in kind.service.documents().items() if source == "wombat.txt"]

    done = kind.service.run("documents", "delete", "-c", COLLECTION, deleted["id"], "--yes")

    assert done.returncode == 0, done.stderr
    assert before[0] == "wombat.txt"
    assert "wombat.txt" not in sources(search(kind.service, "The wombat sleeps"))
    assert search(kind.service, "The wombat sleeps", filter={"type": "eq", "key": "year", "value": 2020})["hits"] == []


async def test_what_is_replaced_or_deleted_leaves_the_store_itself(kind: Kind) -> None:
    service, name = kind.service, "短暂 short-lived"
    folder = service.folder / "short-lived"
    await asyncio.to_thread(write_and_ingest, service, folder, name, "The platypus lays an egg.")
    async with inside(kind) as (store, address):
        physical = await address(name)
        first = await generations(store, physical)

        await asyncio.to_thread(write_and_ingest, service, folder, name, "The platypus guards its nest.")
        await eventually(lambda: only_newer(store, physical, first), what="the sweep of the replaced generation")
        deleted = await asyncio.to_thread(service.run, "collections", "delete", name, "--yes")
        await eventually(lambda: is_gone(store, physical), what="the drop of the physical collection")

    assert len(first) == 1
    assert deleted.returncode == 0, deleted.stderr


def write_and_ingest(service: Service, folder: Path, collection: str, text: str) -> None:
    """One document, whose bytes are new each time, in a collection that is made where it is missing."""
    folder.mkdir(exist_ok=True)
    (folder / "platypus.txt").write_text(text, encoding="utf-8")
    created = service.run("collections", "create", collection)
    assert created.returncode == 0, created.stderr
    (document,) = service.json("ingest", str(folder), "-c", collection, "--recursive")["documents"]
    assert document["state"] == "published"


@asynccontextmanager
async def inside(kind: Kind) -> AsyncIterator[tuple[VectorStore, Callable[[str], Awaitable[str]]]]:
    """The store that the service runs on, beside it, and what tells where in it a collection lives."""
    data = kind.service.data
    url = json.loads((data / "run" / "postgres.json").read_text(encoding="utf-8"))["url"]
    if kind.server:
        options = {"uri": kind.server.uri}
    else:
        options = {"path": str(data / "stores" / kind.store)} if kind.embedded else {"url": url}
    async with (
        open_catalog(url, pool_size=2, timeout=10, max_attempts=1) as catalog,
        open_store(kind.store, options) as store,
    ):

        async def address(name: str) -> str:
            return (await catalog.collection(Scope(), name)).physical

        yield store, address


async def generations(store: VectorStore, physical: str) -> set[int]:
    """Those that the store holds records of."""
    batches = [batch async for batch in store.scroll(physical, Scope())]
    return {record.generation for batch in batches for record in batch}


async def only_newer(store: VectorStore, physical: str, old: set[int]) -> bool:
    """Whether the store holds one generation alone, and none of the old ones."""
    found = await generations(store, physical)
    return len(found) == 1 and found.isdisjoint(old)


async def is_gone(store: VectorStore, physical: str) -> bool:
    """Whether the store knows the collection no more."""
    try:
        await store.describe_collection(physical)
    except CollectionNotFoundError:
        return True
    return False


async def eventually(condition: Callable[[], Awaitable[bool]], *, what: str) -> None:
    """Ask until it holds."""
    deadline = asyncio.get_running_loop().time() + 60
    while not await condition():
        assert asyncio.get_running_loop().time() < deadline, f"{what}: not within 60 s"
        await asyncio.sleep(0.1)


@pytest.mark.parametrize(("victim", "year"), [("rag.cli serve", 2001), ("rag.cli worker", 2002), (ENGINE, 2003)])
def test_what_is_killed_in_the_middle_comes_back_and_every_document_is_there_once(
    kind: Kind, victim: str, year: int
) -> None:
    service = kind.service
    if victim == ENGINE and kind.store == "pgvector":
        pytest.skip("the death of Postgres is a test of its own")
    names = write_animals(service, year)
    mark = {"type": "eq", "key": "year", "value": year}
    metadata = json.dumps({"year": year})
    uploaded = service.run(
        "ingest", str(service.folder / str(year)), "-c", COLLECTION, "--no-wait", "--metadata", metadata
    )

    kill(kind, victim)

    documents = until(lambda: published(service, names), seconds=60, what=f"the documents after the death of {victim}")
    hits = search(service, "quokka", limit=200, filter=mark)["hits"]
    assert uploaded.returncode == 0, uploaded.stderr
    assert len(hits) == sum(document["chunks"] for document in documents)
    assert len({(hit["source"], hit["start"]) for hit in hits}) == len(hits)
    assert ENGLISH[1] in sources(search(service, ENGLISH[0]))[:3]


def write_animals(service: Service, year: int) -> list[str]:
    """Documents that take the worker a while; gives their names."""
    folder = service.folder / str(year)
    folder.mkdir()
    names = [f"quokka-{year}-{number}.txt" for number in range(6)]
    for name in names:
        lines = (f"Observation {line}: the {name} came back to shelter {line}." for line in range(200))
        (folder / name).write_text("\n".join(lines), encoding="utf-8")
    return names


def kill(kind: Kind, victim: str) -> None:
    if victim != ENGINE:
        kind.service.kill(victim)
    elif kind.server:
        kind.server.kill()
        kind.server.start()
    else:
        until(lambda: host(kind.service), what="the engine").kill()


def published(service: Service, names: list[str]) -> list[dict[str, Any]] | None:
    """The documents of these names, once all of them are published."""
    if not service.readiness():
        return None
    found = service.documents()
    documents = [found[name] for name in names]
    return documents if {document["state"] for document in documents} == {"published"} else None


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_after_the_end_of_everything_and_a_new_start_all_is_there(kind: Kind, end: str) -> None:
    service = kind.service
    before = {mode: ids(search(service, ENGLISH[0], mode=mode)) for mode in ("dense", "hybrid")}
    documents, engine = service.documents(), host(service)

    end_everything(service, end)
    until(lambda: engine is None or not engine.is_running(), seconds=30, what="the end of the engine")
    started = service.run("up", "--detach")

    assert started.returncode == 0, started.stderr
    assert service.documents() == documents
    assert {mode: ids(search(service, ENGLISH[0], mode=mode)) for mode in before} == before


def end_everything(service: Service, end: str) -> None:
    if end == "killed":
        psutil.Process(service.owner["pid"]).kill()
    else:
        stopped = service.run("up", "--stop")
        assert stopped.returncode == 0, stopped.stderr


def ids(answer: Mapping[str, Any]) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]
