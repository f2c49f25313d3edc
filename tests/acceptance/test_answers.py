"""Documents in, cited answers out, in English and in Chinese."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rag.cli.client import parse_events
from tests.acceptance.running import COLLECTION, REPOSITORY, Service, assert_quotes_stand, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ENGLISH = "What does a missing arrival notice cost?"
CHINESE = "三级信号发布后，船舶必须在多久之内离开泊位？"


def test_the_service_answers_degraded_while_vllm_is_loading(starting: Service) -> None:
    assert starting.first_readiness["status"] == "degraded"
    assert starting.first_readiness["dependencies"]["catalog"]["status"] == "ready"
    assert starting.first_readiness["dependencies"]["generation"]["status"] == "unavailable"


def test_every_example_is_published(ingested: dict[str, dict[str, Any]]) -> None:
    assert len(ingested) == len([path for path in (REPOSITORY / "examples").rglob("*") if path.is_file()])
    assert {document["state"] for document in ingested.values()} == {"published"}
    assert all(document["chunks"] >= 1 for document in ingested.values())


def test_starting_again_says_that_it_runs_already_and_waits_until_everything_is_ready(service: Service) -> None:
    again = service.run("up", "--detach", "--wait", "generation")
    plain = service.run("up")

    assert again.returncode == 0
    assert again.stdout.startswith(f"already running: process {service.owner['pid']}, API {service.url}")
    assert (plain.returncode, "(data_folder_locked)" in plain.stderr) == (2, True)
    until(service.ready, what="everything ready")


def test_an_english_answer_is_generated_and_quotes_a_sentence_of_the_document(service: Service) -> None:
    answer = service.answer(ENGLISH)

    assert answer["degraded"] == []
    assert answer["skipped"] == []
    assert "950" in answer["text"]
    assert "arrival-notice.md" in {citation["source"] for citation in answer["citations"]}
    assert_quotes_stand(service, answer)


def test_a_chinese_answer_is_extracted_with_citations_and_says_why(service: Service) -> None:
    answer = service.answer(CHINESE)

    assert {"stage": "generation", "reason": "language: zh"} in answer["skipped"]
    assert answer["degraded"] == []
    assert "四小时内离开泊位" in answer["text"]
    assert {citation["source"] for citation in answer["citations"]} >= {"台风应急预案.md"}
    assert_quotes_stand(service, answer)


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
async def test_a_streamed_answer_is_the_one_that_comes_whole(service: Service, question: str) -> None:
    whole = service.answer(question)

    body = {"query": question, "temperature": 0, "stream": True}
    async with (
        httpx.AsyncClient(base_url=service.url, timeout=150, trust_env=False) as http,
        http.stream("POST", f"/v1/collections/{COLLECTION}/answer", json=body) as response,
    ):
        events = [event async for event in parse_events(response.aiter_lines())]

    done = events[-1][1]
    assert (events[0][0], events[-1][0]) == ("hits", "done")
    assert "".join(data["text"] for name, data in events if name == "delta") == done["text"] == whole["text"]
    assert [data for name, data in events if name == "citation"] == done["citations"] == whole["citations"]


def test_a_question_is_answered_on_the_command_line_with_its_citations(service: Service) -> None:
    done = service.run("ask", "-c", COLLECTION, ENGLISH)

    assert done.returncode == 0
    assert "950" in done.stdout
    assert "[1] arrival-notice.md" in done.stdout


def test_metrics_can_be_scraped_and_count_what_was_done(service: Service) -> None:
    service.answer(ENGLISH)

    with service.client() as client:
        families = {family.name: family for family in text_string_to_metric_families(client.get("/metrics").text)}

    answered = [
        sample.value
        for sample in families["rag_http_requests"].samples
        if sample.labels.get("route", "").endswith("/answer") and sample.labels["status"] == "200"
    ]
    stages = {sample.labels.get("stage") for sample in families["rag_stage_duration_seconds"].samples}
    assert sum(answered) >= 1
    assert {"embed", "retrieve", "rerank", "generate"} <= stages
    assert "rag_jobs" in families


def test_ingesting_the_examples_again_ingests_nothing(service: Service, ingested: dict[str, dict[str, Any]]) -> None:
    before = service.documents()

    report = service.json("ingest", str(REPOSITORY / "examples"), "-c", COLLECTION, "--recursive")

    assert {document["unchanged"] for document in report["documents"]} == {True}
    assert {document["source"] for document in report["documents"]} == set(ingested)
    assert service.documents() == before


def test_a_document_lives_on_the_command_line_from_ingest_to_delete(service: Service) -> None:
    file = service.folder / "灯塔.md"
    file.write_text("# 灯塔\n\n鸥岛灯塔每十二秒闪光两次，射程二十二海里。\n", encoding="utf-8")
    (document,) = service.json("ingest", str(file), "-c", "灯塔")["documents"]
    (collection,) = [found for found in service.json("collections", "list")["collections"] if found["name"] == "灯塔"]

    listed = service.json("documents", "list", "-c", "灯塔", "--state", "published")["documents"]
    shown = service.json("documents", "show", "-c", "灯塔", document["id"], "--chunks")
    retried = service.json("documents", "retry", "-c", "灯塔", document["id"])
    until(lambda: service.documents("灯塔")[file.name]["state"] == "published", what="published again")
    hits = service.json("search", "-c", "灯塔", "灯塔多久闪一次？", "--mode", "dense")["hits"]
    deleted = service.run("documents", "delete", "-c", "灯塔", document["id"], "--yes")

    assert (collection["embedding_model"], collection["dimension"]) == ("multilingual-e5-small", 384)
    assert "每十二秒闪光两次" in "".join(chunk["text"] for chunk in shown["chunk_list"])
    assert [each["id"] for each in listed] == [retried["id"]] == [document["id"]]
    assert [hit["source"] for hit in hits] == [file.name]
    assert (deleted.returncode, service.documents("灯塔")) == (0, {})
    assert service.json("jobs", "--stuck")["jobs"] == []
