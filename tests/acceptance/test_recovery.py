"""What is killed comes back, and nothing is lost or served half."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import psutil
import pytest

from tests.acceptance.running import COLLECTION, Service, assert_quotes_stand, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

QUESTION = "What does a missing arrival notice cost?"
ANIMALS = ("wombat", "quokka", "numbat", "bilby", "potoroo", "bettong", "cuscus", "dunnart")


def search_status(service: Service) -> int:
    """The status of one search; a search that succeeds finds something, a refusal says when to come back."""
    response = service.post("search", query="arrival notice")
    assert response.status_code in {200, 503}, response.text
    if response.status_code == 200:
        assert response.json()["hits"]
    else:
        assert float(response.headers["Retry-After"]) > 0
        assert response.json()["code"]
    return response.status_code


def found(service: Service) -> list[str]:
    """The hits of one search; a reranker that is still loading has no part in it."""
    until(lambda: service.status("embedding") == "ready", what="the embedder")
    search = service.json("search", "-c", COLLECTION, QUESTION, "--no-rerank")
    assert search["degraded"] == []
    return [hit["id"] for hit in search["hits"]]


def test_without_vllm_answers_are_extracted_until_it_has_been_started_again(service: Service) -> None:
    killed = service.kill("vllm.entrypoints")

    extracted = service.answer(QUESTION)
    strict = service.post("answer", query=QUESTION, strict=True)

    assert extracted["degraded"] == ["generation"]
    assert "950" in extracted["text"]
    assert_quotes_stand(service, extracted)
    assert strict.status_code == 503
    assert service.readiness()["status"] == "degraded"
    until(service.ready, seconds=300, what="vLLM started again")
    restarted = service.child("vllm.entrypoints")
    assert restarted is not None
    assert restarted.pid != killed
    assert service.answer(QUESTION)["degraded"] == []


def test_a_killed_postgres_costs_refusals_but_no_document(populated: Service) -> None:
    before = populated.documents()
    postmaster = psutil.Process(int((populated.data / "postgres" / "postmaster.pid").read_text().split()[0]))

    postmaster.kill()
    begun, statuses = time.monotonic(), list[int]()
    while statuses[-3:] != [200, 200, 200]:
        assert time.monotonic() < begun + 90, statuses
        statuses.append(search_status(populated))

    assert not postmaster.is_running()
    assert populated.documents() == before


def test_a_worker_killed_in_the_middle_leaves_every_document_published_once(populated: Service) -> None:
    folder = populated.folder / "animals"
    folder.mkdir()
    for animal in ANIMALS:
        lines = (f"Observation {number}: the {animal} came back to shelter {number}." for number in range(300))
        (folder / f"{animal}.txt").write_text("\n".join(lines), encoding="utf-8")
    uploaded = populated.run("ingest", str(folder), "-c", "animals", "--no-wait")
    until(lambda: any(d["state"] == "running" for d in populated.documents("animals").values()), what="a running job")

    populated.kill("rag.cli worker")

    interrupted = [d["source"] for d in populated.documents("animals").values() if d["state"] != "published"]
    until(lambda: {d["state"] for d in populated.documents("animals").values()} == {"published"}, seconds=180)
    documents = populated.documents("animals")
    assert uploaded.returncode == 0
    assert interrupted
    assert set(documents) == {f"{animal}.txt" for animal in ANIMALS}
    assert _chunks(populated, "animals") == sum(document["chunks"] for document in documents.values())
    for source in documents:
        hits = populated.json("search", "-c", "animals", Path(source).stem, "--mode", "lexical", "--no-rerank")["hits"]
        assert {hit["source"] for hit in hits} == {source}
        assert len({hit["start"] for hit in hits}) == len(hits)


def _chunks(service: Service, name: str) -> int:
    collections = service.json("collections", "list")["collections"]
    return next(int(collection["chunks"]) for collection in collections if collection["name"] == name)


def test_after_a_stop_and_a_new_start_everything_is_there(populated: Service) -> None:
    before, owner = populated.documents(), populated.owner["pid"]
    hits = found(populated)

    stopped = populated.run("up", "--stop")
    started = populated.run("up", "--detach")

    assert (stopped.returncode, started.returncode) == (0, 0), started.stderr
    assert populated.owner["pid"] != owner
    assert not psutil.pid_exists(owner)
    assert populated.documents() == before
    assert found(populated) == hits
    assert httpx.get(f"{populated.url}/livez", trust_env=False).status_code == 200
