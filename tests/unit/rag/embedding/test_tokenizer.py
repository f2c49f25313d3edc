"""A tokenizer is read from a model folder alone and places its tokens in code points."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tokenizers

from rag.core.errors import ConfigurationError
from rag.embedding.tokenizer import load_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    words = {"[UNK]": 0, "ships": 1, "anchor": 2, "船": 3}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_spans_are_code_points_also_after_wide_characters(folder: Path) -> None:
    text = "😀 船 ships"

    [spans] = load_tokenizer(folder).spans([text])

    assert [text[start:end] for start, end in spans] == ["😀", "船", "ships"]


def test_the_saved_truncation_and_padding_do_not_apply(folder: Path) -> None:
    [spans] = load_tokenizer(folder).spans(["ships anchor ships anchor"])

    assert len(spans) == 4


def test_threads_may_share_it(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(tokenizer.spans, [["ships anchor"]] * 200))

    assert all(spans.tolist() == [[0, 5], [6, 12]] for [spans] in results)


def test_a_folder_whose_transformer_lies_below_is_read_too(folder: Path) -> None:
    below = folder / "0_Transformer"
    below.mkdir()
    (folder / "tokenizer.json").rename(below / "tokenizer.json")
    (folder / "modules.json").write_text('[{"idx": 0, "path": "0_Transformer"}]')

    [spans] = load_tokenizer(folder).spans(["ships"])

    assert spans.tolist() == [[0, 5]]


def test_a_folder_without_a_tokenizer_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no tokenizer"):
        load_tokenizer(tmp_path)


def test_a_hash_model_splits_into_words() -> None:
    [spans] = load_tokenizer("hash-384").spans(["two words"])

    assert spans.tolist() == [[0, 3], [4, 9]]


def test_tokens_that_share_a_character_do_not_overlap(tmp_path: Path) -> None:
    pieces = [("<unk>", 0.0), ("▁", -1.0), ("船", -2.0), ("只", -2.0), ("▁ship", -1.0)]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))

    [spans, nothing] = load_tokenizer(tmp_path).spans(["船只 ship", ""])

    assert spans.tolist() == [[0, 0], [0, 1], [1, 2], [2, 7]]
    assert nothing.shape == (0, 2)
