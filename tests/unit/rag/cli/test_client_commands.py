"""Commands that call a service, against a scripted one."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from rag.cli.root import run

Anchorage = Callable[..., tuple[int, str, str]]

HIT = {
    "id": "h1", "document": "d1", "source": "指南/向量.md", "title": "向量数据库", "score": 0.9,
    "text": "Milvus\n是向量数据库",
    "page": 3, "headings": ["一", "二"], "quality": "summary",
}  # fmt: skip
CITATION = {**HIT, "marker": 1, "quote": "Milvus 是向量数据库"}


def events(*pairs: tuple[str, Any]) -> str:
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in pairs)


def test_without_a_service_the_message_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"

        code = run(["search", "-c", "notes", "x", "--url", url])

    assert code == 1
    message = f"anchorage: no service answers at {url}; start one with `anchorage up` (no_service)\n"
    assert capsys.readouterr() == ("", message)


@pytest.mark.parametrize("url", ["notes", "ftp://x", "http://", "http://[::1"])
def test_a_url_that_is_none_is_a_configuration_error(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["jobs", "--url", url]) == 2
    assert "is not an address" in capsys.readouterr().err


def test_a_problem_of_the_service_is_one_line_with_its_code(service: Any, anchorage: Anchorage) -> None:
    service.refuse("POST", "/v1/collections/notes/search", status=404, code="collection_not_found", detail="no notes")

    assert anchorage("search", "-c", "notes", "x") == (1, "", "anchorage: no notes (collection_not_found)\n")


def test_an_answer_that_is_no_problem_document_is_named_by_its_status(service: Any, anchorage: Anchorage) -> None:
    service.answer("GET", "/v1/jobs", "<html>", status=502, media_type="text/html")

    assert anchorage("jobs") == (1, "", "anchorage: the service answered 502 (http_502)\n")


def test_something_else_that_answers_is_not_taken_for_a_service(service: Any, anchorage: Anchorage) -> None:
    service.answer("GET", "/v1/jobs", "<html>hello", media_type="text/html")

    code, output, error = anchorage("jobs")

    assert (code, output) == (1, "")
    assert "is not an Anchorage service" in error


def test_a_search_shows_where_each_hit_stands_and_what_was_left_out(service: Any, anchorage: Anchorage) -> None:
    result = {
        "hits": [HIT],
        "degraded": ["rerank"],
        "skipped": [{"stage": "generate", "reason": "zh"}],
        "shortfall": True,
    }
    service.answer("POST", "/v1/collections/%E7%AC%94%E8%AE%B0/search", result)

    code, output, error = anchorage("search", "-c", "笔记", "向量", "--mode", "lexical", "--no-rerank", "--limit", "3")

    assert code == 0
    assert output == " 1. 指南/向量.md — 向量数据库 (page 3) § 一 › 二 [summary]  0.900\n    Milvus 是向量数据库\n"
    assert "degraded: rerank" in error
    assert "skipped: generate (zh)" in error
    assert "fewer hits" in error
    assert service.requests[0][2] == {"query": "向量", "limit": 3, "rerank": False, "mode": "lexical"}


def test_json_output_is_the_document_of_the_service_and_nothing_else(service: Any, anchorage: Anchorage) -> None:
    result = {"hits": [HIT], "degraded": ["rerank"], "skipped": []}
    service.answer("POST", "/v1/collections/notes/search", result)

    code, output, error = anchorage(
        "search", "-c", "notes", "x", "--json", "--filter", '{"type": "and", "filters": []}'
    )

    assert (code, json.loads(output), error) == (0, result, "")
    assert service.requests[0][2]["filter"] == {"type": "and", "filters": []}


def test_a_filter_that_is_no_json_is_a_usage_error(anchorage: Anchorage) -> None:
    code, output, error = anchorage("search", "-c", "notes", "x", "--filter", "year > 2024")

    assert (code, output) == (2, "")
    assert "not JSON" in error


def test_an_answer_is_written_as_it_comes_with_numbered_citations(service: Any, anchorage: Anchorage) -> None:
    answer = {"text": "Milvus [1].", "citations": [CITATION], "degraded": ["generation"], "skipped": []}
    stream = events(("hits", {}), ("delta", {"text": "Milvus "}), ("delta", {"text": "[1]."}), ("done", answer))
    service.answer("POST", "/v1/collections/notes/answer", stream, media_type="text/event-stream")

    code, output, error = anchorage("ask", "-c", "notes", "?")

    assert code == 0
    assert output.startswith("Milvus [1].\n\n[1] 指南/向量.md — 向量数据库 (page 3)")
    assert "“Milvus 是向量数据库”" in output
    assert "degraded: generation" in error
    assert service.requests[0][2]["stream"] is True


def test_an_error_in_the_middle_of_an_answer_fails_with_its_code(service: Any, anchorage: Anchorage) -> None:
    stream = events(
        ("delta", {"text": "Mil"}), ("error", {"code": "store_unavailable", "detail": "gone", "status": 503})
    )
    service.answer("POST", "/v1/collections/notes/answer", stream, media_type="text/event-stream")

    assert anchorage("ask", "-c", "notes", "?") == (1, "Mil\n", "anchorage: gone (store_unavailable)\n")


def test_an_answer_that_breaks_off_is_an_error(service: Any, anchorage: Anchorage) -> None:
    stream = events(("delta", {"text": "Mil"}))
    service.answer("POST", "/v1/collections/notes/answer", stream, media_type="text/event-stream")

    code, _, error = anchorage("ask", "-c", "notes", "?")

    assert code == 1
    assert "broke off" in error


def test_asking_for_json_does_not_stream(service: Any, anchorage: Anchorage) -> None:
    service.answer("POST", "/v1/collections/notes/answer", {"text": "x", "citations": []})

    code, output, _ = anchorage("ask", "-c", "notes", "?", "--json")

    assert (code, json.loads(output)["text"]) == (0, "x")
    assert "stream" not in service.requests[0][2]


def test_a_collection_is_created_with_its_fields(service: Any, anchorage: Anchorage) -> None:
    service.answer("POST", "/v1/collections", {"name": "n"}, status=201)

    code, output, _ = anchorage("collections", "create", "n", "--field", "a:b:integer", "--metric", "dot")

    assert (code, output) == (0, "created n\n")
    assert service.requests[0][2] == {"name": "n", "fields": {"a:b": "integer"}, "metric": "dot"}


@pytest.mark.parametrize("field", ["year", "year:number", ":string"])
def test_a_field_without_a_known_type_is_a_usage_error(field: str, anchorage: Anchorage) -> None:
    code, _, error = anchorage("collections", "create", "n", "--field", field)

    assert code == 2
    assert "is not NAME:TYPE" in error


def test_deleting_is_not_done_where_nobody_can_be_asked(service: Any, anchorage: Anchorage) -> None:
    service.answer("DELETE", "/v1/collections/n", "", status=204)

    refused, confirmed = anchorage("collections", "delete", "n"), anchorage("collections", "delete", "n", "--yes")

    assert refused[0] == 2
    assert "--yes" in refused[2]
    assert confirmed[:2] == (0, "deleted n\n")
    assert [method for method, _, _ in service.requests] == ["DELETE"]


def test_listing_documents_follows_the_pages_up_to_the_limit(service: Any, anchorage: Anchorage) -> None:
    page = {"documents": [{"id": "1", "source": "a", "state": "published"}], "next": "c", "total": 9}
    service.answer("GET", "/v1/collections/n/documents", page)

    code, output, error = anchorage("documents", "list", "-c", "n", "--limit", "2", "--state", "published")

    assert code == 0
    assert len(output.splitlines()) == 4
    assert "2 of 9 documents" in error
    assert [path.partition("?")[2] for _, path, _ in service.requests] == [
        "limit=2&state=published", "limit=1&cursor=c&state=published",
    ]  # fmt: skip


def test_a_document_is_shown_with_its_error_attempts_and_chunks(service: Any, anchorage: Anchorage) -> None:
    document = {
        "id": "d",
        "source": "a",
        "state": "failed",
        "error": {"code": "parse_failed"},
        "attempts": [{"tier": 1}],
    }
    chunks = {"chunks": [{"index": 0, "start": 0, "end": 2, "text": "向量", "page": None}], "generation": 1}
    service.answer("GET", "/v1/collections/n/documents/d", document)
    service.answer("GET", "/v1/collections/n/documents/d/chunks", chunks)

    code, output, _ = anchorage("documents", "show", "-c", "n", "d", "--chunks")
    _, as_json, _ = anchorage("documents", "show", "-c", "n", "d", "--chunks", "--json")

    assert code == 0
    assert "code: parse_failed" in output
    assert "tier: 1" in output
    assert "characters 0 to 2\n向量" in output
    assert json.loads(as_json)["chunk_list"] == chunks["chunks"]


def test_a_degraded_document_is_shown_with_its_quality_fault_structure_and_promotion(
    service: Any, anchorage: Anchorage
) -> None:
    document = {
        "id": "d",
        "source": "a",
        "state": "published",
        "quality": "summary",
        "error": {"code": "parse_timeout"},
        "structure": {"pages": 3, "headings": ["港口"]},
        "promotion": {"attempts": 1, "running": False, "next_at": "2026-12-01T00:00:00Z"},
    }
    service.answer("GET", "/v1/collections/n/documents/d", document)

    code, output, _ = anchorage("documents", "show", "-c", "n", "d")

    assert code == 0
    for shown in ("summary", "code: parse_timeout", "headings: 港口", "next_at: 2026-12-01T00:00:00Z"):
        assert shown in output


@pytest.mark.parametrize(("action", "state"), [("retry", "queued"), ("cancel", "cancelled")])
def test_a_document_is_retried_and_cancelled_by_its_id(
    service: Any, anchorage: Anchorage, action: str, state: str
) -> None:
    service.answer("POST", f"/v1/collections/n/documents/d/{action}", {"id": "d", "source": "a.txt", "state": state})

    assert anchorage("documents", action, "-c", "n", "d") == (0, f"{state} a.txt\n", "")


def test_stuck_jobs_are_asked_for_and_marked(service: Any, anchorage: Anchorage) -> None:
    job = {"id": 1, "task": "ingest_document", "status": "doing", "document": "d", "attempts": 2, "stuck": True}
    service.answer("GET", "/v1/jobs", {"jobs": [job], "counts": {"doing": 1}})

    code, output, _ = anchorage("jobs", "--stuck")

    assert code == 0
    assert "stuck" in output.splitlines()[2]
    assert output.splitlines()[-1] == "1 doing"
    assert service.requests[0][1] == "/v1/jobs?stuck=true"


def test_the_address_of_the_service_on_the_data_folder_is_used(
    service: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "service.json").write_text(json.dumps({"pid": 1, "url": service.url}))
    service.answer("GET", "/v1/jobs", {"jobs": [], "counts": {}})

    assert run(["--data-dir", str(tmp_path), "jobs"]) == 0
    assert capsys.readouterr().out.endswith("no jobs\n")
