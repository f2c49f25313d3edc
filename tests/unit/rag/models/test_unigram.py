from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from rag.models.e5_file import read_e5_file
from rag.models.unigram import build_tokenizer


@pytest.fixture
def tokenizer(packed: Path) -> Tokenizer:
    return build_tokenizer(read_e5_file(packed).vocabulary)


def test_a_text_stands_between_start_and_end(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("the cats").tokens == ["<s>", "▁the", "▁cat", "s", "</s>"]


def test_a_pair_has_one_separator_and_only_type_zero(tokenizer: Tokenizer) -> None:
    encoded = tokenizer.encode("the cat", "猫")

    assert encoded.tokens == ["<s>", "▁the", "▁cat", "</s>", "▁猫", "</s>"]
    assert set(encoded.type_ids) == {0}


@pytest.mark.parametrize("text", ["the  cats", "the\tcats", "the\ncats", " the cats ", "the\u200bcats", "th\x01e cats"])
def test_blanks_and_control_characters_do_not_change_the_tokens(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text).tokens == ["<s>", "▁the", "▁cat", "s", "</s>"]


def test_full_width_characters_are_folded(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("猫１").tokens == ["<s>", "▁猫", "1", "</s>"]


def test_offsets_point_into_the_text_as_given(tokenizer: Tokenizer) -> None:
    text = "the   猫"

    encoded = tokenizer.encode(text)

    start, end = encoded.offsets[encoded.tokens.index("▁猫")]
    assert text[start:end].strip() == "猫"


def test_an_unknown_character_costs_one_unknown_token(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("the ☃").ids.count(3) == 1


def test_an_empty_text_is_start_and_end(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("").tokens == ["<s>", "</s>"]
