"""A text's language is told by the script of most of its letters."""

from __future__ import annotations

import pytest

from rag.lexical import script_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What is the capital?", "en"),
        ("数据库如何备份？", "zh"),
        ("什么是PostgreSQL的自动清理", "zh"),
        ("東京の人口は何人ですか", "ja"),
        ("데이터베이스", "ko"),
        ("Где находится столица?", "ru"),
        ("ما هي العاصمة", "ar"),
        ("राजधानी क्या है", "hi"),
        ("Ποια είναι;", "el"),
        ("123 -- !", "und"),
        ("", "und"),
    ],
)
def test_language_follows_the_script(text: str, language: str) -> None:
    assert script_language(text) == language
