"""Which sentence supports a text, and what an answer without a model says."""

from __future__ import annotations

from rag.core.answers import DocumentLabel
from rag.core.types import Quality
from rag.generation.evidence import Evidence, best_passage, cite, read_passages, supporting_passage
from rag.generation.extractive import extract_answer, nothing_found
from tests.unit.rag.query.fakes import make_hit

LABEL = DocumentLabel(source="orchard.txt", title="Orchard", media_type="text/plain")
TABLE = "\n".join(f"| row {place} | apples and pears and trees and water | {place * 7} |" for place in range(60))


def evidence_of(*texts: str, start: int = 0) -> list[Evidence]:
    return [
        Evidence(marker=place, hit=make_hit(f"d{place}", text, start=start), label=LABEL)
        for place, text in enumerate(texts, 1)
    ]


def test_a_quote_has_the_exact_offsets_of_the_document() -> None:
    text = "were sold. The harvest begins in September. It lasts five weeks"
    passage = best_passage(read_passages(evidence_of(text, start=5000)), "when does the harvest begin")

    assert passage is not None
    citation = cite(passage, model=True)
    assert citation.quote == "The harvest begins in September."
    assert text[citation.start - 5000 : citation.end - 5000] == citation.quote
    assert (citation.source, citation.title, citation.quality) == ("orchard.txt", "Orchard", Quality.FULL)


def test_a_whole_sentence_wins_over_a_broken_one_that_shares_the_same_words() -> None:
    passages = read_passages(evidence_of("harvest begins in September. Then rain. The harvest begins in September."))

    passage = best_passage(passages, "harvest begins September")

    assert passage is not None
    assert passage.text == "The harvest begins in September."


def test_a_text_that_is_one_broken_sentence_is_still_quoted() -> None:
    passage = best_passage(read_passages(evidence_of("and the harvest of the orchard then")), "harvest")

    assert passage is not None
    assert passage.text == "and the harvest of the orchard then"


def test_nothing_supports_a_text_that_shares_no_term() -> None:
    assert best_passage(read_passages(evidence_of("The harvest begins.")), "zebra") is None
    assert best_passage([], "harvest") is None


def test_the_second_target_decides_where_nothing_supports_the_first() -> None:
    passage = best_passage(read_passages(evidence_of("The harvest begins.")), "zebra", "harvest")

    assert passage is not None


def test_a_long_wandering_answer_does_not_outweigh_the_question() -> None:
    passages = read_passages(
        evidence_of("The harvest begins in May.", "Geese and ducks swim over the cold lake in winter.")
    )

    passage = supporting_passage(
        passages, question="When does the harvest begin in this orchard?", answer="The harvest begins, ducks, lake."
    )

    assert passage is not None
    assert passage.evidence.marker == 1
    assert supporting_passage(passages, question="zebra", answer="zebra") is None
    assert supporting_passage([], question="zebra", answer="zebra") is None


def test_a_sentence_wins_over_a_long_table_that_holds_the_same_words() -> None:
    sentences = extract_answer("water for the pears?", evidence_of(TABLE, "Give the pears water on Monday."))

    assert sentences[0][0] == "Give the pears water on Monday. [2]"


def test_an_extractive_answer_has_at_most_three_sentences_of_different_chunks() -> None:
    texts = [f"Fact {place} is that harvest begins in week {place}. Something else." for place in range(8)]

    sentences = extract_answer("When does the harvest begin?", evidence_of(*texts))

    assert 1 <= len(sentences) <= 3
    markers = [citation.marker for _, citation in sentences]
    assert len(set(markers)) == len(markers)
    for text, citation in sentences:
        assert text == f"{citation.quote} [{citation.marker}]"
        assert citation.origin == "matched"


def test_the_best_hit_is_quoted_where_no_sentence_shares_a_term_with_the_question() -> None:
    ((text, citation),) = extract_answer("zebra?", evidence_of("The harvest begins.", "The press is clean."))

    assert (text, citation.marker) == ("The harvest begins. [1]", 1)


def test_a_source_that_holds_bracketed_numbers_does_not_add_markers() -> None:
    ((text, citation),) = extract_answer("harvest", evidence_of("The harvest [7] begins\nin May [2]."))

    assert text == "The harvest (7) begins in May (2). [1]"
    assert citation.quote == "The harvest [7] begins\nin May [2]."


def test_nothing_is_extracted_from_nothing() -> None:
    assert extract_answer("harvest", []) == []


def test_nothing_found_is_said_in_chinese_and_english() -> None:
    assert "没有找到" in nothing_found("zh")
    assert nothing_found("en") == nothing_found("ru")
