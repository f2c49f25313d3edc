"""The settings choose the chunker and whether its chunks have headers."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ingest.chunking import FixedChunker, HeadedChunker, RecursiveChunker, SemanticChunker
from ingest.wiring import _chunker, _Model, run_worker
from rag.core.errors import ConfigurationError
from rag.core.types import Block, ParsedDocument
from rag.embedding import HashEmbedder, load_tokenizer
from rag.settings import load_settings

MODEL = _Model(tokenizer=load_tokenizer("hash-16"), dimension=16, window=64)


@pytest.mark.parametrize(
    ("name", "expected"), [("recursive", RecursiveChunker), ("semantic", SemanticChunker), ("fixed", FixedChunker)]
)
def test_the_setting_names_the_chunker(monkeypatch: pytest.MonkeyPatch, name: str, expected: type) -> None:
    monkeypatch.setenv("ANCHORAGE_INGEST__CHUNKER", name)

    assert isinstance(_chunker(load_settings(), MODEL, HashEmbedder(16)), expected)


async def test_a_chunk_and_its_header_fit_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHORAGE_INGEST__CHUNK_HEADER", "true")
    monkeypatch.setenv("ANCHORAGE_INGEST__CHUNK_MIN_TOKENS", "2")
    monkeypatch.setenv("ANCHORAGE_INGEST__CHUNK_OVERLAP_TOKENS", "0")
    text = "word " * 200
    document = ParsedDocument(text=text, blocks=(Block(start=0, end=len(text)),), title="long title " * 40)
    chunker = _chunker(load_settings(), MODEL, HashEmbedder(16))

    chunks = await chunker.chunk(document)

    assert isinstance(chunker, HeadedChunker)
    assert all(chunk.header for chunk in chunks)
    assert all(len(spans) < 64 for spans in MODEL.tokenizer.spans([chunk.indexed for chunk in chunks]))


def test_a_window_without_room_for_chunks_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHORAGE_INGEST__CHUNK_HEADER", "true")

    with pytest.raises(ConfigurationError, match="CHUNK_TOKENS"):
        _chunker(load_settings(), MODEL, HashEmbedder(16))


async def test_a_taken_port_of_the_metrics_is_a_configuration_error_that_names_the_setting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = load_settings(data_dir=tmp_path, ingest={"metrics_port": server.getsockname()[1]})

        with pytest.raises(ConfigurationError, match="ANCHORAGE_INGEST__METRICS_PORT"):
            await run_worker(settings)
