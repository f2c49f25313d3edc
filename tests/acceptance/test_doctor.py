"""A live service is damaged behind its back: the doctor names exactly that, and mends it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from rag.cli.checks import Check, run_checks
from rag.core.catalog import CollectionView
from rag.core.records import ByDocument, ByIds, Record, RecordBatch
from rag.core.types import Scope
from rag.maintenance import Doctor, Parts, Report
from rag.settings import Settings, load_settings
from rag.wiring import open_parts
from tests.acceptance.conftest import HASHING, SETTINGS, running_service
from tests.acceptance.running import COLLECTION, Service, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SERVICE = Scope(groups=None)
TURNS = 30
ANIMALS = ("wombat", "quokka", "numbat", "bilby", "potoroo", "bettong", "cuscus", "dunnart", "quoll", "kowari")
DAMAGE = {
    "records_missing": 2,
    "records_orphaned": 3,
    "metadata_differs": 1,
    "acl_differs": 1,
    "original_missing": 1,
    "original_damaged": 1,
    "text_missing": 1,
    "text_damaged": 1,
    "blob_unreferenced": 1,
    "document_jobless": 1,
    "statistics_differ": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What was said on the way to another kind of store."""

    running: subprocess.CompletedProcess[str]
    fault: Check
    refused: subprocess.CompletedProcess[str]
    moved: dict[str, Any]


@pytest.fixture(scope="module")
def home() -> Iterator[Service]:
    """A service on pgvector with ten documents in it."""
    # So patient that the worker mends nothing by itself.
    patience = {"ANCHORAGE_INGEST__STALLED_AFTER": "300", "ANCHORAGE_INGEST__PUBLISH_INTERVAL": "0.1"}
    with running_service({**SETTINGS, **HASHING, **patience}) as started:
        _write(started.folder / "animals")
        created = started.run("collections", "create", COLLECTION, "--field", "year:integer")
        assert created.returncode == 0, created.stderr
        assert {each["state"] for each in upload(started)} == {"published"}
        yield started


@pytest.fixture(scope="module")
def move(home: Service) -> Move:
    """The service's data moved to the embedded qdrant, the service started on it."""
    if find_spec("qdrant_edge") is None:
        pytest.skip("needs the store qdrant and its extra (`pip install 'anchorage[qdrant]'`)")
    home.environment["ANCHORAGE_STORE__KIND"] = "qdrant"
    running = home.run("rebuild", "--all", "--yes")
    home.run("up", "--stop")
    (fault,) = [check for check in run_checks(settings_of(home)) if check.fault]
    refused = home.run("serve")
    moved = home.json("rebuild", "--all", "--yes")
    started = home.run("up", "--detach")
    assert started.returncode == 0, started.stderr
    until(lambda: published(home), seconds=60, what="the documents in the new store")
    return Move(running=running, fault=fault, refused=refused, moved=moved)


@pytest.fixture(scope="module", params=["pgvector", "qdrant"])
def service(request: pytest.FixtureRequest, home: Service) -> Service:
    """The service on that kind of store."""
    if request.param == "qdrant":
        request.getfixturevalue("move")
    return home


def _write(folder: Path) -> None:
    """HTML, so that the parsed text is another file than the original."""
    folder.mkdir()
    for animal in ANIMALS:
        lines = "".join(f"<p>Observation {day}: the {animal} came back to shelter {day}.</p>" for day in range(60))
        (folder / f"{animal}.html").write_text(f"<h1>The {animal}</h1>{lines}", encoding="utf-8")


def upload(service: Service) -> list[dict[str, Any]]:
    report = service.json("ingest", str(service.folder / "animals"), "-c", COLLECTION, "--metadata", '{"year": 2026}')
    return list(report["documents"])


def settings_of(service: Service) -> Settings:
    return load_settings(
        data_dir=service.data,
        store={"kind": service.environment.get("ANCHORAGE_STORE__KIND", "pgvector")},
        http={"port": 0},
        embedding={"model": "hash-384"},
        rerank={"enabled": False},
        generation={"managed": False},
    )


def within(service: Service, work: Callable[[Parts, CollectionView], Awaitable[Any]]) -> Any:
    """Do something with the parts of a service that runs."""

    async def run() -> Any:
        async with open_parts(settings_of(service)) as parts:
            (collection,) = await parts.catalog.inspected_collections(COLLECTION)
            return await work(parts, collection)

    return asyncio.run(run())


def doctor(service: Service) -> dict[str, int]:
    """What the doctor counts, by code."""
    return {finding.code: finding.count for finding in examine(service, repair=False).findings}


def examine(service: Service, *, repair: bool) -> Report:
    async def run(parts: Parts, _: CollectionView) -> Report:
        quick = replace(parts, moment=0.1)
        return await Doctor(quick, repair=repair, progress=lambda _: None).examine()

    report: Report = within(service, run)
    return report


def published(service: Service) -> bool:
    return {document["state"] for document in service.documents().values()} == {"published"}


def sources(service: Service, query: str, **more: Any) -> set[str]:
    def answer() -> httpx.Response | None:
        response = service.post("search", query=query, mode="lexical", limit=50, **more)
        return response if response.status_code == 200 else None

    return {hit["source"] for hit in until(answer, what="a search").json()["hits"]}


async def damage(parts: Parts, collection: CollectionView) -> None:
    page = await parts.catalog.inspected_page(collection.id, after=None, limit=100)
    found = {Path(each.source).stem: each for each in page}
    store, physical = parts.store, collection.physical

    async def records(animal: str) -> list[Record]:
        scrolled = store.scroll(physical, SERVICE, selector=ByDocument(document=found[animal].id))
        return [record async for batch in scrolled for record in batch]

    async def write(changed: list[Record]) -> None:
        await store.upsert(physical, SERVICE, RecordBatch.of(changed))

    def blob(animal: str, *, text: bool) -> Path:
        ref = found[animal].text if text else found[animal].blob
        assert ref is not None
        return next((parts.data_dir / "blobs").glob(f"*/*/{ref.sha256}"))

    await store.delete(physical, SERVICE, ByDocument(document=found["wombat"].id))
    await store.delete(physical, SERVICE, ByIds(ids=(((await records("quokka"))[0]).id,)))
    numbat = (await records("numbat"))[0]
    await write([replace(numbat, id=uuid4(), document=uuid4()), replace(numbat, id=uuid4(), generation=999_999)])
    await write([replace(numbat, id=uuid4(), generation=999_998)])
    await store.update_metadata(physical, SERVICE, found["bilby"].id, {"year": 1999})
    await write([replace(record, acl=("strangers",)) for record in await records("potoroo")])
    blob("bettong", text=False).unlink()
    _corrupt(blob("cuscus", text=False))
    blob("dunnart", text=True).unlink()
    _corrupt(blob("quoll", text=True))
    stray = await parts.blobs.put(SERVICE, b"nobody's")
    os.utime(next((parts.data_dir / "blobs").glob(f"*/*/{stray.sha256}")), (0, 0))


def _corrupt(path: Path) -> None:
    path.write_bytes(b"?" * path.stat().st_size)


def tamper(service: Service) -> None:
    """Take a document's job away, and change two figures."""
    with _database(service) as connection:
        connection.execute("UPDATE documents SET state = 'queued', updated_at = now() WHERE source = 'kowari.html'")
        connection.execute("UPDATE physical_collections SET chunks = chunks + 5")
        connection.execute(
            "UPDATE term_counts SET chunks = chunks + 1 WHERE term = (SELECT min(term) FROM term_counts)"
        )


def _database(service: Service) -> psycopg.Connection[Any]:
    return psycopg.connect(_catalog_url(service), autocommit=True, options="-c search_path=anchorage,public")


def _catalog_url(service: Service) -> str:
    return str(json.loads((service.data / "run" / "postgres.json").read_text(encoding="utf-8"))["url"])


def test_a_dropped_collection_is_named_and_a_rebuild_makes_it_again(home: Service) -> None:
    async def drop(parts: Parts, collection: CollectionView) -> None:
        await parts.store.drop_collection(collection.physical)

    within(home, drop)

    refused = home.post("search", query=ANIMALS[0])
    found = home.json("doctor", "--collection", COLLECTION, code=3)
    rebuilt = home.json("rebuild", COLLECTION, "--yes")

    assert (refused.status_code, refused.json()["code"]) == (503, "collection_lost")
    assert f"anchorage rebuild {COLLECTION}" in refused.json()["detail"]
    assert [(each["code"], each["count"]) for each in found["findings"]] == [("collection_missing", 1)]
    assert (rebuilt["created"], rebuilt["left"], rebuilt["failed"]) == (1, 0, 0)
    assert rebuilt["queued"] == len(home.documents())
    assert published(home)
    for animal in ANIMALS:
        assert sources(home, animal) == {f"{animal}.html"}
    assert doctor(home) == {}


def test_what_is_ingested_replaced_changed_and_deleted_meanwhile_is_no_finding(home: Service) -> None:
    done = threading.Event()
    load = threading.Thread(target=_keep_busy, args=(home, done))

    async def watch(parts: Parts, _: CollectionView) -> list[Report]:
        quick, reports = replace(parts, moment=0.1), []
        while not done.is_set():
            reports.append(await Doctor(quick, repair=False, progress=lambda _: None).examine())
        return reports

    load.start()
    reports = within(home, watch)
    load.join()

    assert len(reports) > 3
    assert [report.as_json()["findings"] for report in reports] == [[]] * len(reports)


def _keep_busy(service: Service, done: threading.Event) -> None:
    """Documents come, are replaced, get other metadata and go."""
    route = f"/v1/collections/{COLLECTION}/documents"
    try:
        with service.client() as client:
            for turn in range(TURNS):
                body = {"text": f"Turn {turn}. " + "A quokka slept. " * 200, "source": f"busy-{turn % 7}.txt"}
                (document,) = client.post(route, json=body).raise_for_status().json()["documents"]
                client.patch(f"{route}/{document['id']}", json={"metadata": {"year": turn}}).raise_for_status()
                if turn % 5 == 0 or turn >= TURNS - 7:
                    client.delete(f"{route}/{document['id']}").raise_for_status()
    finally:
        done.set()


def test_the_doctor_finds_exactly_the_damage_and_mends_it(service: Service) -> None:
    assert doctor(service) == {}
    within(service, damage)
    tamper(service)

    found = doctor(service)
    repaired = examine(service, repair=True)
    until(lambda: published(service), seconds=60, what="the documents that were queued again")
    left = {finding.code: finding.count for finding in examine(service, repair=True).findings}

    assert found == DAMAGE
    assert {each.code for each in repaired.findings if each.open} == {"original_missing", "original_damaged"}
    assert left == {"original_missing": 2}
    for animal in ANIMALS:
        assert sources(service, animal) == {f"{animal}.html"}
    assert sources(service, "shelter", filter={"type": "eq", "key": "year", "value": 1999}) == set()

    with service.client() as client:
        for animal in ("bettong", "cuscus"):
            file = {"file": (f"{animal}.html", (service.folder / "animals" / f"{animal}.html").read_bytes())}
            data = {"metadata": '{"year": 2026}'}
            client.post(f"/v1/collections/{COLLECTION}/documents", files=file, data=data).raise_for_status()

    assert doctor(service) == {}


def test_another_kind_of_store_is_refused_until_a_rebuild_has_moved_everything(home: Service, move: Move) -> None:
    documents = len(home.documents())

    assert move.running.returncode == 1
    assert "up --stop" in move.running.stderr
    for message in (move.fault.message, move.refused.stderr):
        assert "'pgvector'" in message
        assert "anchorage rebuild --all --yes" in message
    assert move.refused.returncode == 2
    assert (move.moved["created"], move.moved["queued"], move.moved["workers"]) == (1, documents, 0)
    assert sources(home, "wombat") == {"wombat.html"}
    assert doctor(home) == {}
