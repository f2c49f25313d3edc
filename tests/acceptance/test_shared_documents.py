"""Documents from the wild: each one ends published, or failed with a code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.acceptance.running import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FORMATS = {".pdf", ".docx", ".html", ".md", ".txt", ".csv"}
BESIDE = (".expected.md", ".truth.csv")


def test_every_document_of_the_six_formats_ends_published_or_failed_with_a_code(
    shared: Path, ingesting: Service
) -> None:
    found = [path for path in sorted((shared / "data" / "documents").rglob("*")) if path.suffix in FORMATS]
    documents = [path for path in found if not path.name.endswith(BESIDE)]
    folder = ingesting.folder / "documents"
    folder.mkdir()
    for path in documents:
        shutil.copy(path, folder / path.name)

    done = ingesting.run("ingest", str(folder), "-c", "documents", "--json")

    report = json.loads(done.stdout)
    failed = [document for document in report["documents"] if document["state"] != "published"]
    assert done.returncode == (3 if failed else 0), done.stderr
    assert len(report["documents"]) == len(documents)
    assert {document["state"] for document in report["documents"]} <= {"published", "failed"}
    assert all(document["error"]["code"] for document in failed)
    assert all(document["chunks"] >= 1 for document in report["documents"] if document["state"] == "published")
    assert len(failed) < len(documents) / 2
