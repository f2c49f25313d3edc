"""Which store settings name, told without secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag.core.errors import StoreChangedError
from rag.settings import Settings, load_settings
from rag.wiring.store_identity import check_noted_store, store_of, write_note


def settings(folder: Path, kind: str, **options: Any) -> Settings:
    return load_settings(data_dir=folder, store={"kind": kind, "options": options})


@pytest.mark.parametrize(
    ("kind", "options", "location"),
    [
        ("pgvector", {}, "the catalog's Postgres"),
        ("pgvector", {"url": "postgresql://me:secret@db:5433/vectors?password=secret"}, "postgresql://db:5433/vectors"),
        ("pgvector", {"url": "host=db password=secret"}, "a connection string"),
        ("pgvector", {"url": "postgresql://db/v", "schema": "mine"}, "postgresql://db/v mine"),
        ("qdrant", {}, "the data folder"),
        ("qdrant", {"path": "/srv/points"}, "/srv/points"),
        ("qdrant", {"url": "http://key:secret@qdrant:6333", "api_key": "secret"}, "http://qdrant:6333"),
        ("milvus", {"uri": "http://milvus:19530", "token": "secret"}, "http://milvus:19530"),
        ("milvus", {"uri": "http://[broken", "token": "secret"}, "an address"),
    ],
)
def test_a_location_holds_no_secret(tmp_path: Path, kind: str, options: dict[str, Any], location: str) -> None:
    assert store_of(settings(tmp_path, kind, **options)).location == location


def test_what_the_last_service_wrote_down_counts_once_there_are_documents(tmp_path: Path) -> None:
    write_note(settings(tmp_path, "pgvector"), store_of(settings(tmp_path, "pgvector")))

    check_noted_store(settings(tmp_path, "qdrant"))
    (tmp_path / "blobs" / "tenant" / "ab").mkdir(parents=True)
    (tmp_path / "blobs" / "tenant" / "ab" / "abcd").touch()

    check_noted_store(settings(tmp_path, "pgvector"))
    with pytest.raises(StoreChangedError, match=r"'pgvector'.*'qdrant'.*rebuild --all --yes"):
        check_noted_store(settings(tmp_path, "qdrant"))


def test_a_note_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "blobs" / "tenant" / "ab").mkdir(parents=True)
    (tmp_path / "blobs" / "tenant" / "ab" / "abcd").touch()
    (tmp_path / "store.json").write_text("{")

    check_noted_store(settings(tmp_path, "qdrant"))
