"""The analyzer folds what readers take for the same word, and gives the same ids everywhere."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from rag.lexical import count_terms
from rag.lexical.analyzer import fold, term_id

TEXT = st.text(
    alphabet=st.one_of(st.characters(exclude_categories=("Cs",)), st.sampled_from("aé́ß中文のアｱ한국ЙЁ٣ हिन्दी .,\n")),
    max_size=80,
)


def terms(text: str) -> dict[int, int]:
    return dict(count_terms(text).counts)


def ids(*words: str) -> dict[int, int]:
    return {term_id(word): words.count(word) for word in words}


@given(TEXT)
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(TEXT)
def test_case_does_not_matter(text: str) -> None:
    assert terms(text.casefold()) == terms(text)


@given(st.text(alphabet="abcdeinou 123", max_size=40), st.sampled_from("\u0301\u0308\u0327"))
def test_accents_do_not_matter(text: str, accent: str) -> None:
    accented = "".join(letter + accent if letter.isalpha() else letter for letter in text)

    assert terms(accented) == terms(text)


@given(st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=40))
def test_width_does_not_matter(text: str) -> None:
    wide = "".join(chr(ord(letter) + 0xFEE0) for letter in text)

    assert terms(wide) == terms(text)


@given(TEXT, TEXT)
def test_texts_joined_by_a_line_break_count_as_their_sum(left: str, right: str) -> None:
    joined = count_terms(left + "\n" + right)

    total = terms(left)
    for term, count in terms(right).items():
        total[term] = total.get(term, 0) + count
    assert joined.counts == total
    assert joined.length == count_terms(left).length + count_terms(right).length


@given(TEXT)
def test_length_is_the_sum_of_counts_and_ids_are_unsigned_32_bit(text: str) -> None:
    counted = count_terms(text)

    assert counted.length == sum(counted.counts.values())
    assert all(0 <= term < 2**32 for term in counted.counts)


def test_words_are_runs_of_letters_and_digits() -> None:
    assert terms("COVID-19, snake_case don't naïve") == ids("covid", "19", "snake", "case", "don", "t", "naive")


def test_chinese_becomes_bigrams_and_a_lone_character_a_term() -> None:
    assert terms("数据库，好 PostgreSQL数据") == ids("数据", "据库", "好", "postgresql", "数据")


def test_japanese_and_korean_become_bigrams_and_halfwidth_kana_is_folded() -> None:
    assert terms("ﾃﾞｰﾀ") == terms("データ") == ids("デー", "ータ")
    assert terms("한국어") == ids("한국", "국어")


def test_kangxi_radicals_count_as_the_characters_they_look_like() -> None:
    assert terms("⽤⼈") == terms("用人")


def test_marks_stay_part_of_words_of_scripts_that_need_them() -> None:
    assert count_terms("हिन्दी भाषा").length == 2


def test_nothing_in_nothing_out() -> None:
    assert count_terms("").length == 0
    assert count_terms("。！？ -- \n").counts == {}


def test_ids_are_the_same_in_another_process() -> None:
    script = "from rag.lexical import count_terms; print(sorted(count_terms('Hello 数据库 été').counts))"

    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == str(sorted(terms("Hello 数据库 été")))
    assert term_id("hello") == 0xF70667EA
