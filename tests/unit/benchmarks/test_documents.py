"""The benchmark of documents notices what is missing, out of order or not as it was known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.documents import Reading, check, documents, follows, share_of_words
from benchmarks.documents_facts import Facts
from rag.core.types import Block, ParsedDocument, Quality

DOCUMENT = ParsedDocument(
    text="Harbour rules\n\nship | tons\nAnna | 1200\n\nＡ last word",
    blocks=(
        Block(start=0, end=15, page=1),
        Block(start=15, end=40, page=1, kind="table"),
        Block(start=40, end=51, page=2, headings=("Fees",)),
    ),
    title="Harbour rules",
    encoding="cp932",
)
READING = Reading(format="pdf", seconds=0.1, document=DOCUMENT)


def broken(facts: Facts, reading: Reading = READING) -> int:
    return sum(not held for _, held in check(facts, reading))


def test_facts_that_hold_are_not_reported() -> None:
    facts = Facts(
        texts=("Harbourrules", "A last"), order=("ship", "last word"), rows=(("Anna", "1200"),), title="Harbour rules",
        pages=2, on_pages=(("Anna", 1), ("last word", 2)), encoding="cp932", tables=1, lines=4, headings=1,
    )  # fmt: skip

    assert broken(facts) == 0


@pytest.mark.parametrize(
    "facts",
    [
        Facts(texts=("Harbor",)),
        Facts(order=("last word", "ship")),
        Facts(rows=(("ship", "1200"),)),
        Facts(title="Harbour"),
        Facts(pages=3),
        Facts(on_pages=(("Anna", 2),)),
        Facts(encoding="utf-8"),
        Facts(tables=2),
        Facts(lines=5),
        Facts(headings=2),
        Facts(code="encrypted"),
        Facts(no_text=True),
        Facts(partial=True),
    ],
)
def test_each_kind_of_fact_is_reported_when_it_does_not_hold(facts: Facts) -> None:
    assert broken(facts) == 1


@pytest.mark.parametrize(("code", "count"), [("malformed", 0), ("encrypted", 1), (None, 1)])
def test_a_failure_is_a_fact_only_with_its_code(code: str | None, count: int) -> None:
    assert broken(Facts(code=code), Reading(format="pdf", seconds=0.1, code="malformed")) == count


def test_a_summary_does_not_pass_for_the_whole() -> None:
    summary = replace(READING, document=replace(DOCUMENT, quality=Quality.SUMMARY))

    assert broken(Facts(texts=("Harbour rules",)), summary) == 1


def test_parts_follow_each_other_without_sharing_characters() -> None:
    assert follows("abab", ["ab", "ab"])
    assert not follows("aba", ["ab", "ba"])


def test_words_are_counted_as_often_as_they_occur_and_links_are_not_read() -> None:
    markdown = "# Duck duck\n\n<!-- image --> see [a *pond*](http://example.test/water_(x)) &amp; ![reed](reed.png)"

    assert share_of_words(markdown, "DUCK duck see a pond reed") == 1
    assert share_of_words(markdown, "duck see a pond reed") == pytest.approx(5 / 6)
    assert share_of_words(markdown, "") == 0


def test_the_files_beside_a_document_are_no_documents(tmp_path: Path) -> None:
    for name in ("deep/a.pdf", "b.md", "deep/a.pdf.expected.md", "c.truth.csv", "d.eml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    assert [file.name for file in documents(tmp_path)] == ["b.md", "a.pdf"]
