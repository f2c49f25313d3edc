"""Which configurations need a model hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.settings import EmbeddingSettings, RerankSettings, Settings
from rag.supervision.models import needs_hub


def configured(embedder: str, reranker: str = "auto", *, rerank: bool = True) -> Settings:
    return Settings(embedding=EmbeddingSettings(model=embedder), rerank=RerankSettings(model=reranker, enabled=rerank))


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        (configured("multilingual-e5-small"), False),
        (configured("BAAI/bge-m3"), True),
        (configured("multilingual-e5-small", "BAAI/bge-reranker-v2-m3"), True),
        (configured("multilingual-e5-small", "BAAI/bge-reranker-v2-m3", rerank=False), False),
    ],
)
def test_a_hub_is_needed_for_names_that_are_not_known(settings: Settings, needed: bool) -> None:
    assert needs_hub(settings) is needed


def test_a_folder_needs_no_hub(tmp_path: Path) -> None:
    assert not needs_hub(configured(str(tmp_path)))
