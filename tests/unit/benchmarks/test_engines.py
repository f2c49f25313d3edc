"""Engines are opened by name; one that cannot run here is said to be missing, unless it was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import engines
from benchmarks.engines import QDRANT_URL, each_opened
from rag.core.errors import ConfigurationError
from rag.core.records import CollectionSpec


def test_without_names_all_engines_with_an_index_are_measured() -> None:
    assert [each.name for each in engines.engines()] == [name for name in engines.ENGINES if name != "memory"]


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="no engine parrot; there is pgvector"):
        engines.engines(["parrot"])


async def test_an_engine_without_an_index_is_labelled_exact(tmp_path: Path) -> None:
    async for opened in each_opened(["memory"], tmp_path, []):
        await opened.store.create_collection("c", CollectionSpec(dimension=2))

        assert opened.index_state(await opened.settle("c")) == "exact"


async def test_an_engine_that_was_asked_for_and_is_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(QDRANT_URL, raising=False)

    with pytest.raises(ConfigurationError, match=QDRANT_URL):
        [opened async for opened in each_opened(["qdrant-server"], tmp_path, [])]


async def test_an_engine_that_nobody_asked_for_and_is_not_there_is_noted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(QDRANT_URL, raising=False)
    monkeypatch.setattr(engines, "ENGINES", {"qdrant-server": engines.ENGINES["qdrant-server"]})
    notes: list[str] = []

    assert [opened async for opened in each_opened([], tmp_path, notes)] == []
    assert notes == [f"qdrant-server was not measured: it needs the address of a server in {QDRANT_URL}"]
