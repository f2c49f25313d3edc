"""The command line on a real service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.integration.cli.conftest import Home
else:
    Home = Any

MILVUS = "# Milvus\n\nMilvus is a vector database. It was released in 2019 by the company Zilliz in Shanghai.\n"
GUIDE = "珠峰指南\n\n珠穆朗玛峰是世界最高的山峰，位于中国与尼泊尔的边境，海拔八千八百四十八米。\n"


@pytest.fixture(scope="session")
def notes(service: Home) -> Path:
    """A folder with two documents, a format that is not supported, a hidden file and a folder."""
    folder = service.folder / "notes"
    (folder / "中文").mkdir(parents=True)
    (folder / "milvus.md").write_text(MILVUS, encoding="utf-8")
    (folder / "中文" / "珠峰.txt").write_text(GUIDE, encoding="utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (folder / ".hidden.txt").write_text("hidden", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def ingested(service: Home, notes: Path) -> dict[str, dict[str, Any]]:
    """The report of ingesting the folder, by source."""
    arguments = ("ingest", str(notes), "-c", "笔记", "--recursive", "--metadata", '{"year": 2024}')
    report = service.json(*arguments, code=3)
    return {document["source"]: document for document in report["documents"]}


def test_a_folder_is_ingested_and_what_is_not_supported_is_reported(ingested: dict[str, dict[str, Any]]) -> None:
    assert {source: document["state"] for source, document in ingested.items()} == {
        "milvus.md": "published",
        "中文/珠峰.txt": "published",
        "picture.png": "unsupported",
    }
    assert ingested["picture.png"]["error"]["code"] == "unsupported_media_type"
    assert ingested["milvus.md"]["chunks"] >= 1


@pytest.mark.usefixtures("ingested")
def test_ingesting_again_changes_nothing(service: Home, notes: Path) -> None:
    report = service.json("ingest", str(notes / "milvus.md"), "-c", "笔记", "--metadata", '{"year": 2024}')

    assert [(d["state"], d["unchanged"]) for d in report["documents"]] == [("published", True)]


@pytest.mark.usefixtures("ingested")
@pytest.mark.parametrize(
    ("query", "source"), [("Who released Milvus?", "milvus.md"), ("世界最高的山峰", "中文/珠峰.txt")]
)
def test_a_search_finds_in_both_languages(service: Home, query: str, source: str) -> None:
    found = service.json("search", "-c", "笔记", query, "--mode", "lexical", "--limit", "1")
    shown = service.run("search", "-c", "笔记", query, "--mode", "lexical", "--limit", "1")

    assert [hit["source"] for hit in found["hits"]] == [source]
    assert source in shown.stdout


@pytest.mark.usefixtures("ingested")
def test_an_answer_comes_with_numbered_citations_that_quote_the_document(service: Home) -> None:
    answer = service.json("ask", "-c", "笔记", "世界最高的山峰在哪里？", "--mode", "lexical")
    shown = service.run("ask", "-c", "笔记", "世界最高的山峰在哪里？", "--mode", "lexical")

    assert answer["citations"]
    assert answer["citations"][0]["source"] == "中文/珠峰.txt"
    assert all(citation["quote"] in GUIDE for citation in answer["citations"] if citation["source"] != "milvus.md")
    assert "[1] 中文/珠峰.txt" in shown.stdout
    assert shown.returncode == 0


def test_documents_are_listed_and_shown_with_their_chunks(service: Home, ingested: dict[str, dict[str, Any]]) -> None:
    listing = service.json("documents", "list", "-c", "笔记", "--state", "published")
    shown = service.json("documents", "show", "-c", "笔记", ingested["milvus.md"]["id"], "--chunks")

    assert {document["source"] for document in listing["documents"]} == {"milvus.md", "中文/珠峰.txt"}
    assert shown["metadata"] == {"year": 2024}
    assert "Zilliz" in "".join(chunk["text"] for chunk in shown["chunk_list"])


def test_a_deleted_document_is_found_no_more(service: Home) -> None:
    file = service.folder / "short-lived.txt"
    file.write_text("The axolotl regenerates its limbs.", encoding="utf-8")
    (document,) = service.json("ingest", str(file), "-c", "short")["documents"]
    before = service.json("search", "-c", "short", "axolotl")

    deleted = service.run("documents", "delete", "-c", "short", document["id"], "--yes")

    after = service.json("search", "-c", "short", "axolotl")
    assert (len(before["hits"]), deleted.returncode, after["hits"]) == (1, 0, [])
    assert "(document_not_found)" in service.run("documents", "show", "-c", "short", document["id"]).stderr


def test_a_retried_document_is_published_again(service: Home, ingested: dict[str, dict[str, Any]]) -> None:
    retried = service.json("documents", "retry", "-c", "笔记", ingested["milvus.md"]["id"])

    assert retried["state"] in {"queued", "running", "published"}


def test_collections_are_created_listed_and_deleted(service: Home) -> None:
    created = service.json("collections", "create", "年度", "--field", "year:integer")
    names = [collection["name"] for collection in service.json("collections", "list")["collections"]]
    refused = service.run("collections", "create", "年度", "--field", "year:string")
    deleted = service.run("collections", "delete", "年度", "--yes")

    assert created["fields"] == {"year": "integer"}
    assert "年度" in names
    assert (refused.returncode, "(collection_exists)" in refused.stderr) == (1, True)
    assert deleted.returncode == 0


def test_an_unknown_collection_is_one_line_with_its_code(service: Home) -> None:
    done = service.run("search", "-c", "none", "x")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("anchorage: ")
    assert done.stderr.endswith("(collection_not_found)\n")


def test_no_job_is_stuck(service: Home) -> None:
    assert service.json("jobs", "--stuck")["jobs"] == []


def test_a_second_supervisor_on_the_folder_is_refused_with_the_owner(service: Home) -> None:
    done = service.run("up")

    assert done.returncode == 2
    assert f"process {service.owner['pid']}, {service.url}" in done.stderr
    assert done.stderr.endswith("(data_folder_locked)\n")


@pytest.mark.parametrize("wait", ["api", "generation"])
def test_starting_in_the_background_what_runs_already_changes_nothing_and_says_so(service: Home, wait: str) -> None:
    owner = service.owner

    done = service.run("up", "--detach", "--wait", wait)

    assert done.returncode == 0
    assert done.stdout.startswith(f"already running: process {owner['pid']}, API {owner['url']};")
    assert ("answers are extractive" in done.stderr) is (wait == "generation")
    assert service.owner == owner


def test_the_configuration_check_knows_the_running_service(service: Home) -> None:
    report = service.json("check-config")

    assert report["ok"]
    assert any(service.url in check["message"] for check in report["checks"])
    assert json.dumps(report)
