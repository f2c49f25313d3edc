"""Which configurations name models that cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.core.errors import ConfigurationError
from rag.settings import EmbeddingSettings, RerankSettings, Settings
from rag.supervision.models import require_models


def configured(embedder: str, reranker: str = "auto", *, rerank: bool = True) -> Settings:
    return Settings(embedding=EmbeddingSettings(model=embedder), rerank=RerankSettings(model=reranker, enabled=rerank))


@pytest.mark.parametrize(
    "settings",
    [
        configured("nonexist"),
        configured("nobody/nothing"),
        configured("cross-encoder-multilingual-l6"),
        configured("hash-384", "nonexist"),
        configured("hash-384", "multilingual-e5-small"),
    ],
)
def test_a_model_that_cannot_be_had_is_refused(settings: Settings) -> None:
    with pytest.raises(ConfigurationError):
        require_models(settings)


@pytest.mark.parametrize(
    "settings",
    [
        configured("multilingual-e5-small"),
        configured("multilingual-e5-small", "cross-encoder-multilingual-l12"),
        configured("hash-384", "nonexist", rerank=False),
    ],
)
def test_known_models_and_those_that_are_not_used_need_no_folder(settings: Settings) -> None:
    assert require_models(settings) == {}


def test_a_folder_is_found_where_it_says_how_long_its_vectors_are(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 8}')

    assert require_models(configured(str(tmp_path))) == {str(tmp_path): tmp_path}


def test_an_embedder_that_does_not_say_how_long_its_vectors_are_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")

    with pytest.raises(ConfigurationError, match="how long its vectors are"):
        require_models(configured(str(tmp_path)))
